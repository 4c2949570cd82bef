"""By how much the engine was late between two looks, and what that makes of a certificate."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.control.status import DirectionCounters, DirectionStatus, LaneStatus, Status
from emulator.experiment.engine_lateness import Late, between, quantile
from emulator.experiment.rtt_certificate import Pair, certificate
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology

LANE = Lane("japan", Impairment(5))
TOPOLOGY = Topology("one", "hub", (LANE,), datapath="wire")
PAIR = Pair("hub", "japan", 10, 10, 10, 10, 0, lossy=False, allowed_ns=1000)


def look(*outbound: tuple[int, int]) -> Status:
    """Frames counted by the upper end of how late they were; nothing moved inbound."""
    way = DirectionStatus("lhs-japan", None, None, None, DirectionCounters())
    lanes = (LaneStatus(LANE, replace(way, lateness=outbound), way),)
    return Status(TOPOLOGY, [], lanes, datapath="wire")


def test_what_was_counted_before_does_not_count() -> None:
    before, after = look((1024, 50), (81920, 50)), look((1024, 148), (2048, 1), (81920, 51))
    assert between(before.lanes, after.lanes, 4000) == (Late("japan", "outbound", 100, 1024, 2048, 4000),)


def test_an_engine_started_anew_counts_from_nothing() -> None:
    (late,) = between(look((1024, 50)).lanes, look((2048, 7)).lanes, 4000)
    assert (late.frames, late.p50_ns) == (7, 2048)


def test_netem_tells_nothing_and_so_nothing_is_told() -> None:
    assert between(look().lanes, look().lanes, 4000) == ()


def test_a_quantile_is_never_below_the_truth() -> None:
    assert [quantile({8: 1, 4: 98, 16: 1}, percent) for percent in (1, 50, 98, 99, 100)] == [4, 4, 4, 8, 16]


def test_a_certificate_fails_where_the_machine_was_late_even_if_the_echoes_were_lucky() -> None:
    for late_ns, passed in ((1000, True), (1280, False)):
        made = certificate(look(), look((late_ns, 10)), 5, 1000, [PAIR])
        reported = made.to_json()
        assert (made.passed, reported["passed"], reported["lateness"][0]["passed"]) == (passed, passed, passed)
        assert reported["datapath"] == "wire"
    assert str(made.late[0]) == "japan outbound: the engine was 1.3 us late (99th percentile)"
