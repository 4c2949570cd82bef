"""What is done with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.cli import main
from emulator.control.appliance import Appliance
from emulator.kernel.fake import FakeKernel
from emulator.model.flow_match import Match
from emulator.model.impairment import Impairment
from emulator.model.topology import Flow, Lane, Topology
from emulator.plan import netem_lowering
from emulator.plan.change_warnings import of_change, of_topology

ODD = "the rate of 1.001kbit becomes 1kbit: the kernel holds whole bytes a second"


def star(rate_bps: int, flow_bps: int | None = None) -> Topology:
    flows = (Flow("voice", Match(dscp=46), Impairment(rate_bps=flow_bps)),) if flow_bps else ()
    return Topology("x", "hub", (Lane("a", Impairment(rate_bps=rate_bps), flows=flows), Lane("b")))


@given(st.integers(96, 10**11))
def test_a_rate_is_told_whenever_the_kernel_holds_another(rate_bps: int) -> None:
    lane = star(rate_bps).lane("a")
    lowered = netem_lowering.lower(lane, seed=1, has_seed=True)
    shaper = lowered.outbound.shaper
    assert shaper
    assert bool(of_topology(star(rate_bps))) == (shaper.rate_bytes_per_s * 8 != rate_bps)


def test_only_what_changes_is_told() -> None:
    assert of_topology(star(1001)) == [f"a: outbound: {ODD}"]
    assert of_topology(star(1000, 1001)) == [f"a: flow voice outbound: {ODD}"]
    assert of_change(star(1001), replace(star(1001), seed=2)) == []
    assert of_change(star(1000), star(1001)) == [f"a: outbound: {ODD}"]


def test_up_and_set_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = Appliance(FakeKernel(), tmp_path / "state")
    (file := tmp_path / "t.yaml").write_text("{name: x, hub: h, lanes: {a: {rtt: 8ms, outbound: {rate: 1001bit}}}}")
    for argv in (["up", "--dry-run", str(file)], ["plan", str(file)], ["up", str(file)]):
        assert main.main(argv, obj=one) == 0
        assert capsys.readouterr().err == f"warning: a: outbound: {ODD}\n"
    for argv in (["set", "a", "--rate", "1003bit", "--dry-run"], ["set", "a", "--rate", "1003bit"]):
        assert main.main(argv, obj=one) == 0
        told = capsys.readouterr().err.splitlines()
        assert told == [f"warning: a: {way}: {ODD.replace('1.001', '1.003')}" for way in ("outbound", "inbound")]
    assert main.main(["set", "a", "--rtt", "9ms"], obj=one) == 0
