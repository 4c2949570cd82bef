"""Every impairment asked against measured, by numbered packets in virtual time; and that the rivals' bugs are seen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.lab_proofs import proved

from emulator.analysis.impairment_statistics import overtakers
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.experiment.impairment_test import Proof, prove
from emulator.hosts.tools.frame_stream import SMALLEST, Arrival, FrameFlow, Stream
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.bottleneck import frame_bytes
from emulator.model.impairment import AQM_SINCE, AQMS, MARKING, Buffer, Impairment
from emulator.model.loss_model import GilbertElliott
from emulator.model.topology import Lane, Topology
from emulator.plan import netem_lowering

MS = 10**6
PACKETS = 10_000
SLACK_NS = 10_000
ALL = """
name: all
hub: hub
seed: 11
lanes:
  chance: {rtt: 80ms, outbound: {loss: 1%}, inbound: {loss: 2% burst 4}}
  states: {rtt: 80ms, outbound: {loss: 4-state 1% 20% 5% 50% 0.5%}, inbound: {loss: gilbert 1% 10% 60% 0.2%}}
  marks: {rtt: 80ms, outbound: {loss: 5%, ecn: yes}, inbound: {corrupt: ber 1e-6}}
  copies: {rtt: 80ms, outbound: {duplicate: 2%, corrupt: 3%, reorder: 1%}, inbound: {duplicate: 5%, loss: 3%}}
  shapes:
    rtt: 200ms
    outbound: {jitter: 5ms, distribution: normal, order: free}
    inbound: {jitter: 5ms, distribution: pareto}
  tables:
    rtt: 200ms
    outbound: {jitter: 8ms, distribution: [-8192, 0, 0, 16384]}
    inbound: {jitter: 3ms}
  thin:
    rtt: 40ms
    outbound: {rate: 2Gbit, buffer: 200p}
    inbound: {rate: 10Mbit, buffer: 50ms, overhead: 22B, cells: atm}
  managed:
    rtt: 20ms
    outbound: {rate: 20Mbit, buffer: 100p, aqm: cake}
    inbound: {rate: 20Mbit, buffer: 100p, aqm: fq}
"""
DIRECTIONS = [f"{lane} {way}" for lane in loader.loads(ALL).sites for way in ("outbound", "inbound")]


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Proof]]:
    """By direction, its rows by name."""
    found = proved(loader.loads(ALL), tmp_path_factory.mktemp("all"), PACKETS, SLACK_NS)
    return {d: {p.row.what: p for p in found if f"{p.lane} {p.direction}" == d} for d in DIRECTIONS}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_asked_is_measured(proofs: dict[str, dict[str, Proof]], direction: str) -> None:
    rows = proofs[direction]
    assert {"loss", "duplicates", "corruption"} <= rows.keys()
    assert [proof for proof in rows.values() if not proof.row.passed] == []


@pytest.mark.parametrize(
    ("direction", "figures"),
    [
        ("chance outbound", {"loss": 1, "loss in a row": 1.0101, "duplicates": 0}),
        ("chance inbound", {"loss": 2, "loss in a row": 4, "lengths of these (chi2)": 0}),
        ("states inbound", {"loss": 100 / 11 * 0.6 + 1000 / 11 * 0.002}),
        ("marks outbound", {"loss": 0, "ECN marks": 5}),
        ("marks inbound", {"corruption": 1.2039}),
        ("copies outbound", {"duplicates": 2, "corruption": 3, "overtaking": 1, "delay": 40}),
        ("copies inbound", {"loss": 2.85, "duplicates": 4.7045}),
        ("shapes outbound", {"jitter's shape (KS)": 0}),
        ("shapes inbound", {"jitter's shape (KS)": 0, "overtaking": 0}),
        ("tables outbound", {"jitter's shape (KS)": 0}),
        ("tables inbound", {"jitter's shape (KS)": 0}),
        ("thin outbound", {"rate": 2000, "buffer": 302.8}),
        ("thin inbound", {"rate": 10, "buffer": 62.5}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_was_asked_is_what_the_file_says(
    proofs: dict[str, dict[str, Proof]], direction: str, figures: dict[str, float]
) -> None:
    asked = {what: proofs[direction][what].row.asked for what in figures}
    assert asked == pytest.approx(figures, rel=2e-3)


def stream(appliance: Appliance, topology: Topology, *flows: FrameFlow) -> list[list[Arrival]]:
    """Bring the topology up and run the flows through it."""
    appliance.up(topology)
    with Stream(topology, flows) as one:
        return one.run(5 * 10**9)


def test_20_ms_of_normal_jitter_reorder_nothing_at_a_gigabit(appliance: Appliance) -> None:
    impairment = Impairment(173 * MS, 20 * MS, rate_bps=10**9, distribution="normal")
    flow = FrameFlow("hub", "far", 20_000, 12_112, SMALLEST)
    kept = stream(appliance, Topology("t", "hub", (Lane("far", impairment, impairment),)), flow)[0]
    assert [one.number for one in kept] == list(range(20_000))
    free = replace(impairment, keep_order=False)
    freed = stream(appliance, Topology("t", "hub", (Lane("far", free, impairment),)), flow)[0]
    assert overtakers(freed) > 5_000


def test_a_long_lane_holds_more_than_the_default_limit_of_1000(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Impairment(173 * MS)
    topology, flow = Topology("t", "hub", (Lane("far", far, far),)), FrameFlow("hub", "far", 3_000, 10_000)
    assert len(stream(appliance, topology, flow)[0]) == 3_000
    monkeypatch.setattr(netem_lowering, "limit_packets", lambda *_: 1000)
    assert len(stream(appliance, topology, flow)[0]) == 1_000


def test_the_rivals_1_h_put_back_is_seen(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """tc's 1-h sent as the kernel's h: what should be lost in bursts is not lost at all."""
    rival = lambda self: (self.p_p32, self.r_p32, self.bad_p32, self.good_p32)  # noqa: E731
    monkeypatch.setattr(GilbertElliott, "kernel", rival)
    topology = loader.loads("{name: t, hub: hub, lanes: {far: {rtt: 80ms, loss: 5% burst 4}}}")
    appliance.up(topology)
    rows = {p.row.what: p.row for p in prove(topology, 2_000, SLACK_NS) if p.direction == "outbound"}
    assert (rows["loss"].measured, rows["loss"].passed) == (0, False)


def test_the_next_change_does_not_roll_the_same_dice_again(appliance: Appliance) -> None:
    """A seed that is sent again starts the random numbers anew: with many changes the same packets would be lost."""
    topology = loader.loads("{name: t, hub: hub, lanes: {far: {rtt: 80ms, loss: 20%}}}")
    lost = []
    for rtt_ms in (80, 82, 84):
        lane = topology.lane("far").with_rtt(rtt_ms * MS)
        seen = stream(appliance, topology.with_lane(lane), FrameFlow("hub", "far", 200, MS))[0]
        lost.append(set(range(200)) - {one.number for one in seen})
    assert lost[0] != lost[1] != lost[2] != lost[0]


@pytest.mark.parametrize("queue", [name for name in AQMS if name not in AQM_SINCE])
def test_an_active_queue_marks_before_it_is_full(appliance: Appliance, queue: str) -> None:
    marking = queue in MARKING
    impairment = Impairment(5 * MS, rate_bps=10**7, buffer=Buffer(packets=1000), aqm=queue, ecn=marking)
    frame, topology = frame_bytes(1500), Topology("t", "hub", (Lane("near", impairment, impairment),))
    # A tenth faster than the bottleneck for two seconds: the queue grows, and would hold it all.
    flow = FrameFlow("hub", "near", 1_800, frame * 800 * 10 // 11, frame, ect=True)
    seen = stream(appliance, topology, flow)[0]
    # PIE drops again where it would mark more than a tenth of the packets (RFC 8033, 5.1).
    assert (len(seen) < 1_800) == (queue in ("pie", "fq-pie"))
    assert any(one.marked for one in seen) == marking


def test_a_failure_gives_back_a_table_of_ones_own(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel never tells the table; the way back must send it again all the same."""
    own = Impairment(100 * MS, 8 * MS, distribution=(-8192, 8192))
    topology = Topology("t", "hub", (Lane("far", own, own),))
    appliance.up(topology)
    normal = topology.with_lane(Lane("far", replace(own, distribution="normal"), own))
    applied = NetlinkKernel.apply

    def failing(self: NetlinkKernel, op: object) -> None:
        applied(self, op)  # type: ignore[arg-type]
        monkeypatch.undo()
        raise RuntimeError("after the change")

    monkeypatch.setattr(NetlinkKernel, "apply", failing)
    with pytest.raises(RuntimeError, match="after the change"):
        appliance.up(normal)
    with Stream(topology, [FrameFlow("hub", "far", 200, 40 * MS)]) as one:
        seen = one.run(10**9)[0]
    delays = {round((a.received_ns - a.sent_ns) / MS) for a in seen}
    assert delays == {92, 108}


def test_tc_shows_the_same(appliance: Appliance) -> None:
    """iproute2 reads what we wrote: an oracle that shares no code with us."""
    from emulator.hosts.tools import process

    appliance.up(loader.loads(ALL))
    shown = {
        lane: process.run(["tc", "qdisc", "show", "dev", f"lhs-{lane}"], 10).checked().stdout
        for lane in loader.loads(ALL).sites
    }
    assert "loss 1%" in shown["chance"]
    assert "loss state p13 1% p31 20% p32 5% p23 50% p14 0.5%" in shown["states"]
    assert "ecn" in shown["marks"]
    assert "duplicate 2%" in shown["copies"]
    assert "corrupt 3%" in shown["copies"]
    assert "reorder 1%" in shown["copies"]
