"""From every impairment to the kernel's integers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.control.status import lane_status
from emulator.kernel.protocol import QueueCounters
from emulator.model import jitter_distribution
from emulator.model.impairment import AQMS, MARKING, Buffer, Impairment
from emulator.model.lane_patch import LanePatch
from emulator.model.loss_model import P32, FourState, GilbertElliott
from emulator.model.topology import Lane, Topology
from emulator.plan import aqm
from emulator.plan.desired_state import remembering, wanted
from emulator.plan.netem_lowering import jitter_reach_ns, lower
from emulator.plan.qdisc_values import ORDER_RATE_BYTES_PER_S, Egress
from emulator.plan.red import Red, idle_table
from emulator.plan.state import Machine, State
from emulator.plan.tbf_burst import burst_ticks, canonical_burst

MS = 10**6
STILL = Impairment(50 * MS)
BOTTLENECK = Impairment(50 * MS, rate_bps=10**8)
GILBERT = GilbertElliott(P32 // 100, P32 // 5)


def egress(impairment: Impairment) -> Egress:
    """What the outbound direction of a lane is lowered to."""
    return lower(Lane("site", impairment, STILL), seed=1, has_seed=True).outbound


def test_nothing_asked_nothing_done() -> None:
    netem = egress(STILL).netem
    assert (netem.lossy, netem.gap, netem.ecn, netem.distribution, netem.cell_overhead) == (False, 0, False, None, 0)
    assert netem.rate_bytes_per_s == ORDER_RATE_BYTES_PER_S


def test_a_shape_carries_its_table_and_its_fingerprint() -> None:
    seen = {}
    for shape in jitter_distribution.NAMES:
        netem = egress(Impairment(50 * MS, MS, distribution=shape)).netem
        assert netem.distribution == jitter_distribution.named(shape)
        seen[shape] = netem.cell_overhead
    assert len(set(seen.values())) == len(seen)
    own = egress(Impairment(50 * MS, MS, distribution=(-1, 1))).netem
    assert (own.distribution, own.cell_overhead) == ((-1, 1), jitter_distribution.fingerprint((-1, 1)))


def test_two_shapes_are_two_states_though_the_kernel_dumps_neither() -> None:
    normal, pareto = (egress(Impairment(50 * MS, MS, distribution=name)) for name in ("normal", "pareto"))
    assert normal != pareto
    assert normal == replace(normal, netem=replace(normal.netem, distribution=None))


def test_order_is_kept_unless_it_is_free() -> None:
    assert egress(Impairment(50 * MS, MS, keep_order=False)).netem.rate_bytes_per_s == 0


def test_models_reorder_duplicate_and_seed() -> None:
    netem = egress(replace(STILL, loss_model=GILBERT, reorder_p32=5, duplicate_p32=6, ecn=True, seed=9)).netem
    assert netem.gemodel == (GILBERT.p_p32, GILBERT.r_p32, 0, 0)
    assert (netem.gap, netem.reorder_p32, netem.duplicate_p32, netem.ecn, netem.seed) == (1, 5, 6, True, 9)
    four = FourState(1, 2, 3, 4, 5)
    assert egress(replace(STILL, loss_model=four)).netem.four_state == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("ber", [1, 10**3, 10**9, 10**12])
def test_a_bit_error_rate_counts_every_bit_of_a_full_frame(ber: int) -> None:
    netem = egress(replace(STILL, ber_e15=ber)).netem
    exact = 1 - math.exp(1514 * 8 * math.log1p(-ber / 1e15))
    assert netem.corrupt_p32 / P32 == pytest.approx(exact, abs=2 / P32)


def test_bits_that_are_all_wrong() -> None:
    assert egress(replace(STILL, ber_e15=10**15)).netem.corrupt_p32 == P32


def test_the_limit_holds_the_longest_jitter_and_the_copies() -> None:
    plain, normal = (egress(Impairment(50 * MS, 20 * MS, distribution=n)) for n in ("uniform", "normal"))
    extra_bytes = (jitter_reach_ns(Impairment(50 * MS, 20 * MS, distribution="normal")) - 20 * MS) * 10 / 8
    assert normal.netem.limit - plain.netem.limit == pytest.approx(extra_bytes / 84, abs=2)
    doubled = egress(Impairment(50 * MS, 20 * MS, duplicate_p32=P32))
    assert doubled.netem.limit == 2 * plain.netem.limit - 1000


def test_overhead_and_cells_belong_to_the_bottleneck() -> None:
    shaper = egress(replace(BOTTLENECK, overhead_bytes=22, atm=True)).shaper
    assert shaper is not None
    assert (shaper.overhead_bytes, shaper.atm) == (22, True)
    assert shaper.burst_wire_bytes == -(-(shaper.burst_bytes + 22) // 48) * 53
    # Many bursts are one tick; the largest stands for them all.
    ticks = burst_ticks(shaper.rate_bytes_per_s, shaper.burst_wire_bytes)
    assert canonical_burst(shaper.rate_bytes_per_s, shaper.burst_bytes, 22, atm=True) == shaper.burst_bytes
    above = replace(shaper, burst_bytes=shaper.burst_bytes + 1)
    assert burst_ticks(shaper.rate_bytes_per_s, above.burst_wire_bytes) > ticks


def test_active_queues() -> None:
    impairment = replace(BOTTLENECK, buffer=Buffer(packets=100))
    assert egress(impairment).aqm is None
    codel = egress(replace(impairment, aqm="codel", ecn=True)).aqm
    assert codel == aqm.Codel(100, 4882, 97656, True)
    flows = egress(replace(impairment, aqm="fq-codel")).aqm
    assert isinstance(flows, aqm.Codel)
    assert (flows.kind, flows.ecn) == ("fq_codel", False)
    red = egress(replace(impairment, aqm="red")).aqm
    assert isinstance(red, Red)
    assert (red.limit, red.max_bytes, red.min_bytes) == (151_400, 37_850, 12_616)
    table = idle_table(red, 12_500_000)
    assert (len(table), table[0], table[-1]) == (256, 0, 31)
    assert list(table) == sorted(table)


def test_further_active_queues() -> None:
    impairment = replace(BOTTLENECK, buffer=Buffer(packets=100))
    pie, fair = (egress(replace(impairment, aqm=name, ecn=True)).aqm for name in ("pie", "fq-pie"))
    assert (pie, fair) == (aqm.Pie(100, 15_000, True), aqm.Pie(100, 15_000, True, 1024))
    assert [str(one) for one in (pie, fair)] == [
        "pie limit 100 target 15000us ecn", "fq_pie limit 100 memory_limit 2147483648 target 15000us ecn",
    ]  # fmt: skip
    # A packet of 1514 bytes takes 2304 of memory, which is what CAKE counts.
    assert egress(replace(impairment, aqm="cake")).aqm == aqm.Cake(230_400, 5_000, 100_000)
    assert egress(replace(impairment, aqm="fq")).aqm == aqm.Fq(100, 100)
    assert egress(replace(impairment, aqm="dualpi2")).aqm == aqm.DualPi2(100, 15_000, 1_000)


@pytest.mark.parametrize("name", [name for name in AQMS if name not in MARKING])
def test_a_queue_that_marks_nothing_refuses_ecn(name: str) -> None:
    with pytest.raises(ValueError, match="ecn has no packets to mark: add loss, or an aqm that marks"):
        replace(BOTTLENECK, aqm=name, ecn=True)
    assert not replace(BOTTLENECK, aqm=name, ecn=True, loss_p32=1).bottleneck.ecn


@given(st.integers(3028, 2**32), st.integers(590, 65_535), st.integers(1_000, 10**11))
def test_red_is_what_the_kernel_takes_however_deep_the_buffer(limit: int, frame: int, rate: int) -> None:
    """red_check_params, and that nothing is rounded out of its range."""
    red = aqm.lower("red", aqm.Space(limit, frame, 2 * frame, rate, 0), ecn=False)
    assert isinstance(red, Red)
    assert 0 < red.min_bytes < red.max_bytes
    assert red.max_bytes.bit_length() + red.wlog < 32
    assert red.plog < 32
    assert red.scell < 32
    assert max(idle_table(red, rate)) < 32


@given(st.integers(1, 10**7))
def test_codel_times_survive_the_way_through_microseconds(ticks: int) -> None:
    reported = aqm.ticks_to_us(ticks)
    stored = reported * 1000 >> 10
    assert stored == ticks
    assert aqm.us_to_ticks((stored << 10) // 1000) == ticks


def test_codel_waits_a_round_trip_on_a_long_lane() -> None:
    far = lower(
        Lane("site", replace(BOTTLENECK, delay_ns=300 * MS, aqm="codel"), STILL), seed=1, has_seed=True
    ).outbound
    assert far.aqm == aqm.Codel(2889, 17_089, 341_796)


@pytest.mark.parametrize(
    "change",
    [
        {"loss_p32": 1}, {"loss_model": GILBERT}, {"duplicate_p32": 1}, {"corrupt_p32": 1}, {"ber_e15": 1},
        {"reorder_p32": 1}, {"overhead_bytes": 1}, {"atm": True}, {"aqm": "red"},
        {"rate_bps": 500_000_000}, {"buffer": Buffer(bytes=60_000)},
    ],
    ids=str,
)  # fmt: skip
def test_packets_come_alone_where_each_has_its_own_fate(change: dict[str, object]) -> None:
    fast = replace(BOTTLENECK, rate_bps=10**9, buffer=None)
    lane = Lane("site", fast, replace(fast, **change))  # type: ignore[arg-type]
    goal = wanted(Topology("t", "hub", (lane,)), State(machine=Machine()))
    assert {veth.segments for name, veth in goal.veths.items() if name.endswith("site")} == {1}
    plain = wanted(Topology("t", "hub", (Lane("site", fast, fast),)), State(machine=Machine()))
    assert {veth.segments for veth in plain.veths.values()} == {65535}


def test_a_change_names_one_thing_and_leaves_the_rest() -> None:
    """The rival's bug: setting one impairment wipes the others."""
    full = Impairment(
        50 * MS, 5 * MS, 0, 10**9, Buffer(packets=9), "pareto", False, GILBERT, 1, 2, 0, 3, True, 4, True, "codel", 5
    )
    lane = Lane("site", full, full)
    for name, value in {"duplicate_p32": 77, "aqm": "red", "ecn": False, "distribution": "normal"}.items():
        changed = LanePatch(outbound={name: value}).apply(lane)
        assert changed.outbound == replace(full, **{name: value})  # type: ignore[arg-type]
        assert changed.inbound == full
    assert LanePatch.both({"loss_p32": 5, "loss_model": None}).apply(lane).outbound == replace(
        full, loss_model=None, loss_p32=5
    )
    off = LanePatch(off=True).apply(lane)
    assert off.outbound == full
    assert off.in_effect.outbound == Impairment(
        rate_bps=10**9, buffer=Buffer(packets=9), overhead_bytes=4, atm=True, aqm="codel", ecn=True, seed=5
    )
    assert not replace(full, aqm="drop-tail").bottleneck.ecn


def test_a_table_of_ones_own_is_remembered_for_the_way_back() -> None:
    own = (-100, 0, 300)
    topology = Topology("t", "hub", (Lane("site", Impairment(50 * MS, MS, distribution=own), STILL),))
    goal = wanted(topology, State(machine=Machine()))
    port = goal.ports["lhs-site"]
    assert port.egress is not None
    forgotten = replace(port, egress=replace(port.egress, netem=replace(port.egress.netem, distribution=None)))
    seen = replace(goal, ports={**goal.ports, "lhs-site": forgotten})
    remembered = remembering(seen, topology).ports["lhs-site"].egress
    assert remembered is not None
    assert remembered.netem.distribution == own
    assert remembering(seen, None) is seen


def test_drops_by_limit_are_unknowable_where_the_shaper_cut_super_frames_apart() -> None:
    fast = Impairment(5 * MS, rate_bps=10**9)
    lane = Lane("japan", fast, fast)
    state = wanted(Topology("t", "hub", (lane,)), State(machine=Machine()))
    counted = {"lhh-japan": QueueCounters(9, 99, drops=2, queued_packets=0, queued_bytes=0, shaper_drops=3)}
    inbound = lane_status(lane, state, counted).inbound.counters
    assert (inbound.drops_limit, inbound.drops_buffer) == (None, 3)
