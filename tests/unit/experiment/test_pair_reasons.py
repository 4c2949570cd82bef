"""Why a pair is not as asked: each cause that the lanes tell, and where to look when they tell none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.control.status import DirectionCounters, DirectionStatus, LaneStatus, Status
from emulator.experiment.pair_reasons import reasons
from emulator.experiment.rtt_certificate import Pair, Unanswered
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology
from emulator.plan.ops import Step
from emulator.plan.qdisc_ops import DelEgress
from emulator.plan.qdisc_values import Shaper

MS = 10**6
LANES = tuple(Lane(name, *[Impairment(20 * MS, rate_bps=10**9)] * 2) for name in ("japan", "london"))
SHAPER = Shaper(125_000_000, 2_000_000, 250_000)


def direction(port: str, drops_buffer: int = 0, drops_limit: int = 0) -> DirectionStatus:
    """A direction with these counters."""
    return DirectionStatus(
        port, None, SHAPER, None, DirectionCounters(drops_buffer=drops_buffer, drops_limit=drops_limit)
    )


def status(drops_buffer: int = 0, drops_limit: int = 0, drifted: str = "") -> Status:
    """Two lanes; outbound japan has dropped so many packets, and a port may have drifted."""
    drift = [Step(DelEgress(drifted), "it should not be there")] if drifted else []
    lanes = tuple(
        LaneStatus(
            lane,
            direction(f"lhs-{lane.name}", *((drops_buffer, drops_limit) if lane.name == "japan" else ())),
            direction(f"lhh-{lane.name}"),
        )
        for lane in LANES
    )
    return Status(Topology("x", "hub", LANES), drift, lanes)


def pair(minimum: float = 80, median: float = 80, p99: float = 80, lost: int = 0) -> Pair:
    """The pair of both lanes, measured so many ms; 80 ms are asked for, 1 ms more or less is allowed."""
    return Pair("japan", "london", 80 * MS, *(round(ms * MS) for ms in (minimum, median, p99)), lost, False, MS)


@pytest.mark.parametrize(
    ("found", "after", "said"),
    [
        (pair(), status(9, 9, "lhs-japan"), ()),
        (pair(85, 85, 85), status(), ("The median is 5 ms above what is asked; 1 ms are allowed.", "even the fastest")),
        (pair(80, 85, 85), status(), ("5 ms above", "some echoes were in time")),
        (pair(60, 60, 60), status(), ("The median is 20 ms below", "another path")),
        (pair(80, 80, 99), status(), ("The 99th percentile is 19 ms above", "single echoes")),
        (pair(lost=2), status(), ("2 echoes were lost although", "single echoes")),
        (pair(85, 85, 85), status(drifted="lhs-japan"), ("5 ms", "japan has drifted", "tc qdisc del dev lhs-japan")),
        (pair(85, 85, 85), status(drifted="lhs-sydney"), ("5 ms", "The lanes are as asked")),
        (pair(80, 96, 97), status(7), ("16 ms", "japan outbound: other traffic filled the bottleneck, whose buffer")),
        (pair(lost=1), status(drops_limit=3), ("1 echo was lost", "the emulator's own queue was too short")),
        (Unanswered("hub", "japan", 80 * MS, "none was answered"), status(), ("none was answered", "hosts are up")),
    ],
)  # fmt: skip
def test_what_is_known_is_said(found: Pair | Unanswered, after: Status, said: tuple[str, ...]) -> None:
    text = " ".join(reasons(found, status(), after))
    assert bool(text) == bool(said)
    assert [part for part in said if part not in text] == [], text


def test_a_busy_machine_is_a_cause_and_a_lane_that_cannot_be_repaired_too() -> None:
    after = replace(status(), blocked={"london": "its port is gone"})
    text = " ".join(reasons(pair(85, 85, 85), status(), after, "load 9.0 on 1 processor"))
    assert "london cannot be repaired: its port is gone" in text
    assert "This machine is busy (load 9.0 on 1 processor)" in text
    assert "The lanes are as asked" not in text
