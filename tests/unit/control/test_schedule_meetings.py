"""Runs of a schedule while measurements take the lanes, and ports disappear."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.hand_clock import HandAlarm, HandClock
from support.schedule_box import Box, S, scheduled

from emulator.config import loader

LOOP = "{keys: [{at: 0s, rtt: 20ms}, {at: 10s, rtt: 120ms}, {at: 20s, rtt: 40ms}, {at: 30s, rtt: 60ms}]}"
CALM = loader.loads("{name: x, hub: h, lanes: {a: {rtt: 80ms}, b: {rtt: 80ms}}}")


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


class Appointments(HandAlarm):
    """An alarm that, while somebody waits for it, does what is due: pairs of a time in ns since it began, and what."""

    def __init__(self, clock: HandClock, *due: tuple[int, Callable[[], object]]) -> None:
        super().__init__(clock)
        self._due, self._began_ns = list(due), clock.unix_ns()

    def sleep_until(self, at_ns: int) -> None:
        while self._due and self._began_ns + self._due[0][0] <= at_ns:
            due_ns, act = self._due.pop(0)
            super().sleep_until(self._began_ns + due_ns)
            act()
        super().sleep_until(at_ns)


@pytest.mark.parametrize("ends", [None, 15])
def test_whoever_plays_a_schedule_says_so_until_it_ends(box: Box, ends: int | None) -> None:
    box.up(scheduled(LOOP))
    lanes, other, seen = box.appliance(), box.appliance(), [box.appliance().is_played()]
    alarm = Appointments(box.clock, (10 * S, lambda: seen.append(other.is_played())))
    if ends:
        lanes.follower(alarm).run(alarm.now_ns() + ends * S)
    else:
        box.alarm = alarm
        box.watch(15)
    assert [*seen, other.is_played()] == [False, True, False]


@pytest.mark.parametrize(
    ("rest", "for_s", "ends_at_s", "later"),
    [("loop: 40s,", 100, 100, [40, 60]), ("", None, 30, [40]), ("", 23, 25, [])],
    ids=["it goes on", "it has an end", "it ends amid the measurement"],
)
@pytest.mark.parametrize("leased", [True, False])
def test_a_run_goes_on_in_its_phase_after_a_measurement(
    box: Box, rest: str, for_s: int | None, ends_at_s: int, later: list[float], leased: bool
) -> None:
    box.up(scheduled(LOOP, rest))
    lanes, seen = box.appliance(), []
    measuring = lanes.lease(CALM) if leased else lanes.hold()
    looks = [(at_s * S, lambda: seen.append(box.rtts()[0])) for at_s in (24, 26, 31)]
    alarm = Appointments(
        box.clock,
        (12 * S, measuring.__enter__),
        looks[0],
        (25 * S, lambda: measuring.__exit__(None, None, None)),
        *looks[1:],
    )
    began_ns = alarm.now_ns()
    late = lanes.follower(alarm).run(None if for_s is None else began_ns + for_s * S)
    assert seen == [80 if leased else 120, *later]
    assert (late.skipped, late.drifts) == (0, 0)
    assert ends_at_s <= (alarm.now_ns() - began_ns) / S < ends_at_s + 1
