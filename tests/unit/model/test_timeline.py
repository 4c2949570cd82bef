"""What a schedule says of a change of its lanes."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.model.impairment import Impairment
from emulator.model.schedule import Keyframe, Schedule, Track
from emulator.model.timeline import overruled
from emulator.model.topology import Lane, Topology

MS, S = 10**6, 10**9


def test_a_change_that_the_schedule_overrules_is_told() -> None:
    track = Track(("a",), (Keyframe(0, (("rtt_ns", 10 * MS),)), Keyframe(5 * S, (("loss_p32", 7),))))
    old = Topology("x", "hub", (Lane("a"), Lane("b")), schedule=Schedule((track,)))

    def told(lane: str, **fields: int) -> list[str]:
        return overruled(old, old.with_lane(replace(old.lane(lane), inbound=Impairment(**fields))))

    end = ", in place of this change: change the schedule, too"
    assert told("a", delay_ns=5) == [f"a: the schedule sets rtt{end}"]
    assert told("a", loss_p32=9, delay_ns=5) == [f"a: the schedule sets rtt and loss from 5 s on{end}"]
    assert told("a", rate_bps=8000) == told("b", delay_ns=5) == []
    assert overruled(replace(old, schedule=None), replace(old, schedule=None)) == []
