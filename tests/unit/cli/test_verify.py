"""What verify says of pairs: each by what it may be off, which jitter widens."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.cli import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.experiment import rtt_certificate
from emulator.hosts.tools.ping import Ping
from emulator.kernel.fake import FakeKernel

MS, TOLERANCE_NS = 10**6, 10_000
STAR = loader.loads(
    "{name: x, hub: h, lanes: {a: {rtt: 40ms, outbound: {jitter: 4ms}}, b: {rtt: 8ms}, c: {rtt: 6ms, loss: 1%}}}"
)
CALM, SHAKEN = Ping((8 * MS,) * 10, 0), Ping((36_609_000, 38_811_000, 43_500_000), 0)


@pytest.mark.parametrize(
    ("found", "code", "row", "sentence"),
    [
        ({"b": CALM}, 0, "h b 8.000 8.000 8.000 8.000 0 ok", "no pair is off by more than 10 us."),
        (
            {"a": SHAKEN, "b": CALM},
            0,
            "h a 40.000 ± 4.010 36.609 38.811 43.500 0 ok",
            "no pair is off by more than allowed: 10 us and as far as jitter or reordering on its path reaches.",
        ),
        (
            {"a": SHAKEN, "b": Ping((9 * MS,), 0)},
            8,
            "h b 8.000 ± 0.010 9.000 9.000 9.000 0 FAILED",
            "1 of 2 pairs are off by more than allowed: 10 us and as far as jitter or reordering on its path reaches.",
        ),
        (
            {"b": Ping((8 * MS,), 2), "c": Ping((6 * MS,), 1)},
            8,
            "h b 8.000 8.000 8.000 8.000 2 FAILED",
            "no pair is off by more than 10 us; 1 of 2 pairs lost echoes although no lane between them has loss.",
        ),
    ],
    ids=["exact", "jitter", "too-far", "lost"],
)
def test_what_a_pair_may_be_off_is_told(
    found: dict[str, Ping], code: int, row: str, sentence: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    appliance = Appliance(FakeKernel(), tmp_path)
    appliance.up(STAR)
    judged = [rtt_certificate.judge(STAR, "h", lane, ping, TOLERANCE_NS) for lane, ping in found.items()]
    monkeypatch.setattr(rtt_certificate, "measure", lambda *_: iter(judged))
    assert main.main(["verify", "--tolerance", "10us"], obj=appliance) == code
    out = capsys.readouterr().out
    assert row in [" ".join(line.split()) for line in out.splitlines()]
    assert out.endswith(f"\nRTT in ms; {sentence}\n")
