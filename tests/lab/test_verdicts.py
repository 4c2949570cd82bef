"""The verdict where the limiter is known by construction: each cell is built so that one thing must hold it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from measuring import KIB, MIB, SMALL, Spoil, measure, netem, spec

from emulator import prober, verdict
from emulator.cells import CellSpec
from emulator.grid import of_window
from emulator.model import Buffer, Profile

TCP_MEM = Path("/proc/sys/net/ipv4/tcp_mem")


@pytest.fixture(autouse=True)
def memory_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = TCP_MEM.read_text()
    # As on a machine without irtt: ping is cheaper, and it must do too.
    monkeypatch.setattr(prober, "_has_irtt", lambda _: False)
    yield
    TCP_MEM.write_text(before)


def sends(kib: int) -> Profile:
    """Hosts whose send buffer is small and whose receive buffer is not."""
    return Profile("sends", (4096, 4 * MIB, 4 * MIB), (4096, 16 * KIB, kib * KIB))


def short_of_memory(pages: int) -> Spoil:
    return lambda *_: TCP_MEM.write_text(f"{pages} {pages} {2 * pages}") and None


CELLS: list[tuple[str, str, CellSpec, Spoil | None]] = [
    ("line-5", verdict.LINE, spec(5, 10), None),
    ("line-4-streams", verdict.LINE, spec(10, 20, streams=4), None),
    ("line-bbr", verdict.LINE, spec(10, 20, cc="bbr", duration_s=4), None),
    ("line-inbound", verdict.LINE, spec(5, 20, direction="inbound"), None),
    ("rwnd-64k", verdict.RECEIVE_WINDOW, spec(20, 100, of_window(64 * KIB)), None),
    ("rwnd-128k", verdict.RECEIVE_WINDOW, spec(20, 160, of_window(128 * KIB), duration_s=4), None),
    ("rwnd-256k", verdict.RECEIVE_WINDOW, spec(20, 200, of_window(256 * KIB), duration_s=4), None),
    ("rwnd-2-streams", verdict.RECEIVE_WINDOW, spec(20, 160, of_window(64 * KIB), streams=2), None),
    ("rwnd-inbound", verdict.RECEIVE_WINDOW, spec(20, 80, of_window(64 * KIB), direction="inbound"), None),
    ("sndbuf-64k", verdict.SEND_BUFFER, spec(20, 100, sends(64)), None),
    ("sndbuf-128k", verdict.SEND_BUFFER, spec(20, 160, sends(128)), None),
    ("sndbuf-256k", verdict.SEND_BUFFER, spec(20, 200, sends(256), duration_s=4), None),
    ("sndbuf-2-streams", verdict.SEND_BUFFER, spec(20, 160, sends(64), streams=2), None),
    ("loss-1%", verdict.CONGESTION_WINDOW, spec(20, 80, SMALL, loss=0.01), None),
    ("loss-0.5%", verdict.CONGESTION_WINDOW, spec(20, 120, SMALL, loss=0.005, duration_s=4), None),
    ("loss-reno", verdict.CONGESTION_WINDOW, spec(20, 80, SMALL, loss=0.01, cc="reno"), None),
    ("loss-inbound", verdict.CONGESTION_WINDOW, spec(20, 80, SMALL, loss=0.01, direction="inbound"), None),
    ("tiny-buffer-3", verdict.CONGESTION_WINDOW, spec(20, 120, SMALL, buffer=Buffer(packets=3), duration_s=4), None),
    ("slow-start-200", verdict.SLOW_START, spec(50, 200, duration_s=1), None),
    ("slow-start-300", verdict.SLOW_START, spec(20, 300, duration_s=1), None),
    ("slow-start-400", verdict.SLOW_START, spec(20, 400, duration_s=2), None),
    ("limit-4", verdict.EMULATOR, spec(10, 80, SMALL), netem("delay 40ms limit 4")),
    ("limit-8", verdict.EMULATOR, spec(10, 120, SMALL), netem("delay 60ms limit 8")),
    ("memory-16", verdict.EMULATOR, spec(20, 120, SMALL), short_of_memory(16)),
]


def test_there_are_enough_of_every_kind() -> None:
    kinds = [kind for _, kind, _, _ in CELLS]
    assert len(CELLS) >= 24
    # The CPU is infinitely fast in virtual time; unknown is what is left when nothing is known.
    assert set(kinds) == set(verdict.KINDS) - {verdict.CPU, verdict.UNKNOWN}
    assert min(kinds.count(kind) for kind in set(kinds)) >= 3


@pytest.mark.parametrize(("kind", "one", "spoil"), [cell[1:] for cell in CELLS], ids=[cell[0] for cell in CELLS])
def test_the_limiter_is_the_one_that_was_built(kind: str, one: CellSpec, spoil: Spoil | None, tmp_path: Path) -> None:
    result = measure(one, tmp_path, spoil)
    assert (result.kind, result.evidence) == (kind, result.evidence), result.limiter


def test_advice_that_is_taken_lifts_the_cell_as_promised(tmp_path: Path) -> None:
    before = measure(spec(10, 100, sends(64)), tmp_path)
    setting, _, rest = before.advice.partition(" from ")
    assert (setting, before.kind) == ("tcp_wmem max", verdict.SEND_BUFFER)
    wanted_mib = float(rest.split(" to ")[1].split(" MiB")[0])
    promised_mib = float(rest.split(": ")[1].split(" MiB/s")[0])
    after = measure(spec(10, 100, sends(round(wanted_mib * 1024)), duration_s=5), tmp_path)
    assert after.kind != verdict.SEND_BUFFER
    assert after.steady_bytes_per_s / MIB == pytest.approx(promised_mib, rel=0.05)
