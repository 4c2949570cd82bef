"""Plays a schedule on lanes that are up: at each instant it sends what changes, for all lanes in one message.

Between two instants the player observes nothing and prepares everything, so that a change takes one message; from time
to time it reads the kernel back. The disk holds the intent and the time at which the schedule began: a player that was
killed and restarted continues in phase.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from emulator.control.intent_store import IntentStore, read_json, write_json
from emulator.control.schedule_lateness import Lateness
from emulator.errors import LonghaulError, MissingError
from emulator.kernel.protocol import Kernel
from emulator.model.timeline import Timeline
from emulator.plan.desired_state import remembering_loss, wanted
from emulator.plan.planner import plan
from emulator.plan.repair import ignoring, lanes_without_ports, repair_plan, with_all_ports
from emulator.plan.scheduled_state import held, instants, steady, timeline_of
from emulator.plan.small_frames import smallest_frame
from emulator.plan.state import State
from emulator.system.struct_json import from_plain, to_plain
from emulator.system.timer import Alarm

READ_BACK_EVERY = 500
"""After so many changes the player reads the kernel back."""

LEAD_NS = 3_000_000
"""So long before an instant the player prepares everything, and nobody else may change the lanes."""

MOST_MISSED_NS = 60_000_000_000
"""How long a change of the intent may take, so that the player still finds the instants that passed meanwhile."""

NOTE_EVERY_NS = 10_000_000_000
PATIENCE_NS = 10_000_000_000
LEASE_LOOK_NS = 1_000_000_000
"""How often a run looks whether a measurement has returned the lanes."""
LOOK_AGAIN_NS = 10_000_000_000
"""How often the player looks for the ports of lanes that it leaves out."""

FORMAT = 1
NOBODY = nullcontext()
"""Keeps nobody out."""


def fail(error: LonghaulError) -> None:
    """Repair nothing: a change that failed ends the run."""
    raise error


class Player:
    """Plays a timeline whose topology is up; `epoch_ns` is its time 0. The lanes must be as scheduled at the start, or
    shortly before: then it plays the instants since. It leaves the lanes of `left_out` alone, whose ports are gone."""

    def __init__(
        self, kernel: Kernel, timeline: Timeline, epoch_ns: int, alarm: Alarm, lateness: Lateness | None = None
    ) -> None:
        self._kernel, self._timeline, self._alarm, self._epoch_ns = kernel, timeline, alarm, epoch_ns
        have = kernel.observe()
        self._have, self._whole = have, with_all_ports(timeline.topology, have)
        self.left_out = lanes_without_ports(timeline.topology, have)
        self._smallest = smallest_frame(timeline.envelope(), have.machine)
        self._steady = steady(timeline, self._whole, self._smallest)
        self._at_ns = self._time_of(have, alarm.now_ns() - epoch_ns)
        self._now = remembering_loss(self._goal(self._at_ns), have)
        self._next: tuple[int, State, Sequence[Callable[[], None]]] | None = None
        self.lateness = lateness or Lateness()

    @property
    def due_ns(self) -> int | None:
        """When the lanes change next, in ns since 1970; None when never."""
        due_ns = self._timeline.next_change(self._at_ns)
        return None if due_ns is None else self._epoch_ns + due_ns

    def play(self) -> bool:
        """Wait for the next instant and apply it; returns whether anything changed. Raises KernelError."""
        due_ns = self._newest()
        goal = remembering_loss(self._goal(due_ns), self._now)
        sends = [self._kernel.prepare(step.op) for step in plan(goal, self._now)]
        self._alarm.sleep_until(self._epoch_ns + due_ns)
        for send in sends:
            send()
        if sends:
            late_ns = self._alarm.now_ns() - self._epoch_ns - due_ns
            self.lateness.add(max(0, late_ns - self._alarm.reading_ns))
        self._at_ns, self._now = due_ns, goal
        return bool(sends)

    def read_back(self) -> None:
        """Repair what somebody else changed meanwhile, as far as it is possible. Raises KernelError."""
        steps = repair_plan(self._timeline.at(self._at_ns), self._kernel.observe(), self._timeline.topology).steps
        for step in steps:
            self._kernel.apply(step.op)
        self.lateness.drifts += bool(steps)

    def _newest(self) -> int:
        """The last instant that is due, else the next one; the player skips those before it."""
        due_ns, now_ns = self._timeline.next_change(self._at_ns), self._alarm.now_ns() - self._epoch_ns
        assert due_ns is not None
        while (after_ns := self._timeline.next_change(due_ns)) is not None and after_ns <= now_ns:
            due_ns = after_ns
            self.lateness.skipped += 1
        return due_ns

    def _time_of(self, have: State, now_ns: int) -> int:
        """The latest time whose state the lanes have, as far as nobody else changed them.

        A change of the intent brings them to the time at which it began. Instants may have passed since.
        """

        def differing(at_ns: int) -> int:
            return len(plan(self._goal(at_ns), have))

        if not differing(now_ns):
            return now_ns
        times = (now_ns, *instants(self._timeline, now_ns, MOST_MISSED_NS), now_ns - MOST_MISSED_NS)
        return min(times, key=differing)

    def _goal(self, at_ns: int) -> State:
        topology = self._timeline.at(at_ns)
        goal = held(wanted(topology, self._whole, self._smallest), self._steady)
        return ignoring(self.left_out, topology, goal, self._have)


class Follower:
    """Plays the schedule of the intent, and follows its changes: `store` holds the intent and when the schedule began.

    It holds `guard` while it uses the kernel, which serves one thread at a time.
    """

    def __init__(
        self, kernel: Kernel, store: IntentStore, alarm: Alarm, guard: AbstractContextManager[object] = NOBODY
    ) -> None:
        self._kernel, self._store, self._alarm, self._guard = kernel, store, alarm, guard
        self._player: Player | None = None
        self._began_ns = self._noted_ns = self._looked_ns = 0
        self._stamp: object = None
        self._leased = False
        """Whether a measurement has leased the lanes, so that the schedule stands still."""

    @property
    def due_ns(self) -> int | None:
        """When the lanes change next, in ns since 1970; None when never. After a change of the intent it waits until
        the change is complete."""
        if self._is_outdated():
            with self._guard, self._store.locked():
                self._keep_up()
        return self._player.due_ns if self._player else None

    def play(self) -> None:
        """Wait for the next instant, which is near, and apply it. Raises KernelError."""
        with self._guard, self._store.locked():
            if self._keep_up() or self._player is None:
                return  # the intent changed, and with it the time
            self._player.play()
        if self._alarm.now_ns() - self._noted_ns > NOTE_EVERY_NS:
            self.note()

    def run(self, end_ns: int | None, mend: Callable[[LonghaulError], None] = fail) -> Lateness:
        """Play until `end_ns` or the schedule's end, then repair what somebody else changed.

        While a measurement has leased the lanes, the schedule stands still, and the run does not end. `mend` is called
        when a change failed, and repairs the lanes, or raises.
        """
        with self.playing():
            self._run(end_ns, mend)
        return self.lateness

    def playing(self) -> AbstractContextManager[None]:
        """Say for the time of a block that somebody plays the schedule."""
        return self._store.playing()

    def _run(self, end_ns: int | None, mend: Callable[[LonghaulError], None]) -> None:
        while (due_ns := self._next_ns()) is not None and (end_ns is None or due_ns < end_ns or self._leased):
            near_ns = min(due_ns - LEAD_NS, self._alarm.now_ns() + PATIENCE_NS)
            self._alarm.sleep_until(near_ns)
            if due_ns - near_ns > LEAD_NS:
                continue
            try:
                self._play_and_look()
            except LonghaulError as error:
                mend(error)
                self.forget()
        if end_ns is not None:
            self._alarm.sleep_until(end_ns)
        self._read_back()

    def _next_ns(self) -> int | None:
        """When the lanes change next, or may be returned; None when never."""
        due_ns = self.due_ns
        return self._alarm.now_ns() + LEASE_LOOK_NS if self._leased else due_ns

    def _play_and_look(self) -> None:
        before = self.lateness.changes
        self.play()
        if self.lateness.changes // READ_BACK_EVERY > before // READ_BACK_EVERY:
            self._read_back()

    def _read_back(self) -> None:
        """Repair what somebody else changed, but not what a change of the intent did."""
        with self._guard, self._store.locked():
            self._keep_up()
            if self._player:
                self._player.read_back()

    @property
    def lateness(self) -> Lateness:
        """The lateness of the current schedule."""
        return self._player.lateness if self._player else Lateness()

    def forget(self) -> None:
        """Read the intent and the machine again before the next change."""
        self.note()
        self._stamp = None

    def note(self) -> None:
        """Write the lateness of the changes to the disk, for the status and for the next start."""
        if self._player:
            plain = {"began_ns": self._began_ns, "lateness": to_plain(self._player.lateness)}
            with contextlib.suppress(MissingError):  # a full disk must not stop the schedule: it is only statistics
                write_json(note_of(self._store.folder), FORMAT, plain)
            self._noted_ns = self._alarm.now_ns()

    def _is_outdated(self) -> bool:
        """Whether the intent changed, or a lost port may be back."""
        if self._player and self._player.left_out and self._alarm.now_ns() - self._looked_ns >= LOOK_AGAIN_NS:
            return True
        return self._store.stamp() != self._stamp

    def _keep_up(self) -> bool:
        """Follow the intent, under the lock; returns whether it changed. After a failure, the next call tries again."""
        if not self._is_outdated():
            return False
        self._stamp = self._player = None
        stamp, now = self._store.stamp(), self._store.read()
        self._leased = now.leased
        timeline = timeline_of(now.topology) if now.topology and now.began_ns is not None else None
        if timeline and now.began_ns is not None:
            self._began_ns, late = now.began_ns, noted(self._store.folder, now.began_ns)
            self._player = Player(self._kernel, timeline, now.began_ns, self._alarm, late)
            self._looked_ns = self._alarm.now_ns()
        self._stamp = stamp
        return True


def note_of(folder: Path) -> Path:
    """The file of a schedule's lateness, in the state folder."""
    return folder / "schedule.json"


def noted(folder: Path, began_ns: int | None) -> Lateness | None:
    """The lateness so far of the schedule that began then; None when no file has it."""
    try:
        plain = read_json(note_of(folder), FORMAT)
        if plain is None or plain["began_ns"] != began_ns:
            return None
        return from_plain(Lateness, plain["lateness"])
    except (LonghaulError, ValueError, KeyError):
        return None  # it is only statistics
