"""Time limits on a machine that is late: by the load, by the timers, and not at all where time is virtual."""

from __future__ import annotations

import pytest

from emulator.system import clock, lateness
from emulator.system.lateness import Deadline, MachineLateness

IDLE, BUSY = MachineLateness(0.3, 2, 60_000), MachineLateness(6.0, 2, 60_000)


@pytest.mark.parametrize(
    ("late", "factor", "busy"),
    [
        (IDLE, 1.006, False),
        (BUSY, 3.0, True),
        (MachineLateness(0.0, 2, 25_000_000), 3.5, True),
        (MachineLateness(500.0, 2, 0), lateness.MOST_FACTOR, True),
        (MachineLateness(0.0, 4, 0), 1.0, False),
    ],
)
def test_limits_grow_with_the_load_and_with_the_lateness_of_timers(
    late: MachineLateness, factor: float, busy: bool
) -> None:
    assert (late.factor, late.busy) == (pytest.approx(factor), busy)


def test_it_is_told_in_words() -> None:
    assert str(BUSY) == "load 6.0 on 2 processors, timers up to 0.1 ms late"
    assert str(MachineLateness(1.0, 1, 12_345_678)) == "load 1.0 on 1 processor, timers up to 12.3 ms late"


def test_in_virtual_time_nothing_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "here_is_virtual", lambda: True)
    assert (lateness.now().load, lateness.now().timer_ns, lateness.now().factor) == (0, 0, 1)


def test_of_this_machine() -> None:
    late = lateness.now()
    assert late.load >= 0
    assert late.cpus >= 1
    assert late.timer_ns > 0


@pytest.mark.parametrize(
    ("loadavg", "load"), [("0.50 2.00 3.00 8/200 1234\n", 7.0), ("5.25 2.00 3.00 1/200 1234\n", 5.25)]
)
def test_the_load_of_the_last_minute_or_of_this_moment(loadavg: str, load: float) -> None:
    assert lateness._load(loadavg) == load


class Hands:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, late: MachineLateness) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(lateness.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(lateness, "now", lambda: late)


def test_a_deadline_of_an_idle_machine_is_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    hands = Hands(monkeypatch, MachineLateness(0.0, 2, 0))
    deadline = Deadline(10)
    hands.now_s += 9
    assert (deadline.left_s(), deadline.passed()) == (1, False)
    hands.now_s += 1
    assert deadline.passed()
    assert str(deadline) == "10 s"


def test_a_deadline_of_a_busy_machine_is_extended_once_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    hands = Hands(monkeypatch, BUSY)
    deadline = Deadline(10)
    hands.now_s += 12
    assert (deadline.passed(), deadline.left_s()) == (False, 18)
    hands.now_s += 18
    assert deadline.passed()
    assert str(deadline) == f"10 s, nor within 30 s on this busy machine ({BUSY})"
