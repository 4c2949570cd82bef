"""The appliance as the web server uses it: one thread at a time, and with ETags.

`can` names the use cases that this appliance supports; only these have endpoints.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.config import lane_patch, new_lanes
from emulator.control.appliance import Appliance
from emulator.control.change_log import LoggedChange
from emulator.control.intent_store import IntentStore, UnreadableError
from emulator.control.machine_context import Phase
from emulator.control.schedule_player import Follower
from emulator.control.status import Status
from emulator.control.status_document import etag_of
from emulator.errors import InputError, no_such
from emulator.model import lane_set
from emulator.model.schedule_diff import differences
from emulator.model.topology import Lane, Topology
from emulator.plan.change_warnings import of_change
from emulator.plan.nic_inventory import NicRow
from emulator.plan.ops import Step
from emulator.plan.repair import RepairOutcome
from emulator.system.timer import Alarm
from web.api.problems import Conflict
from web.performed import Performed, ScheduleChange
from web.run_turn import RunTurn

OPTIONAL = ("confirm", "revert", "undo", "history", "nics")
FRESH_S = 0.25
"""The most seconds that a status may be old: clients that ask at the same time share one observation."""

SURVEY_S = 15.0
"""The most seconds that everything but the counters may be old for a regular observer that is notified of changes:
longer than the watchdog's period, whose checks count, too."""

COMING = 5
"""So many changes of a schedule are told in advance."""


class UseCases:
    """Every method raises what the appliance raises, and Conflict when `if_match` names another state."""

    def __init__(self, appliance: Appliance, clock: Callable[[], float] = time.monotonic) -> None:
        self._appliance, self._clock = appliance, clock
        self._lock = threading.RLock()
        self._status: tuple[float, Status] | None = None
        self._surveyed_s = 0.0
        """When somebody last observed more than the counters, by the clock."""

        self.can = frozenset(name for name in OPTIONAL if hasattr(appliance, name))
        self._store = IntentStore(appliance.state_dir)
        self._stamp = self._store.stamp()
        self._asked: tuple[Lane, ...] | None = None
        """What the last status asked of the lanes; None after a change."""

        self._logged: tuple[object, Sequence[LoggedChange]] | None = None
        """The stamp of the intent, and the history at that moment."""

        self.run_turn = RunTurn(self._lock, self.leaseholder, self.pending_ns)
        self.changes = 0
        """Counts changes, made here, by others or by a schedule, so that watchers notice them."""

    def topology(self) -> Topology | None:
        """The requested topology."""
        with self._lock:
            return self._appliance.topology()

    def lasting(self) -> Topology | None:
        """The requested topology; while a measurement has the lanes, the one that returns."""
        with self._lock:
            return self._store.read().lasting

    def etag(self) -> str:
        """The entity tag of the requested topology; another topology has another tag."""
        return etag_of(self.topology())

    def status(self) -> Status:
        """The status, at most FRESH_S old."""
        return self._fresh()[1]

    def _fresh(self) -> tuple[float, Status]:
        """The status, and when it was read, by the clock."""
        cached = self._status
        if cached and self._clock() - cached[0] < FRESH_S:
            return cached
        with self._lock:
            cached = self._status
            if cached is None or self._clock() - cached[0] >= FRESH_S:
                if self._store.stamp() != self._stamp:
                    self._changed()
                cached = self._status = (self._clock(), self._appliance.status())
                self._surveyed_s = cached[0]
                self._follow_schedule(cached[1])
            return cached

    def _follow_schedule(self, status: Status) -> None:
        """Count what a schedule has changed since the last status, so that watchers notice it."""
        asked = tuple(one.lane for one in status.lanes)
        self.changes += self._asked not in (None, asked)
        self._asked = asked

    def look(self) -> tuple[float, Status]:
        """The status for a regular observer, and when its counters were read, by the clock: complete after a change and
        when nobody has looked for SURVEY_S, else with fresh counters only.

        The watchdog is notified when others change the lanes and observes at once: that counts as a change.
        """
        with self._lock:
            cached = self._status
            if cached is None or self._clock() - self._surveyed_s >= SURVEY_S or self._store.stamp() != self._stamp:
                return self._fresh()
            if cached[1].changing or cached[1].pending or (cached[1].topology and cached[1].topology.schedule):
                return self._fresh()
            return self._clock(), self._appliance.recounted(cached[1])

    def seconds_left(self, status: Status) -> float | None:
        """Seconds until the unconfirmed change is reverted; None when no change is pending."""
        left_ns = status.pending.left_ns if status.pending else None
        return None if left_ns is None else max(0.0, round(left_ns / 1e9, 3))

    def up(
        self, topology: Topology, *, if_match: str = "", dry_run: bool = False, confirm_s: float | None = None,
        sessions: Collection[str] = (),
    ) -> Performed:  # fmt: skip
        """Apply this topology to the machine, or only plan it. `sessions`: our addresses that clients are connected
        to."""
        with self._changing(if_match, dry_run):
            warned = self._appliance.warnings(topology)
            done = self._up(topology, dry_run, confirm_s, sessions)
            return replace(done, warnings=[*warned, *done.warnings])

    def patch(
        self, patches: Mapping[str, Mapping[str, Any]], *, if_match: str = "", dry_run: bool = False,
        confirm_s: float | None = None,
    ) -> Performed:  # fmt: skip
        """Change lanes in use, by name and all in one change; settings that are not named stay."""
        hints = list[str]()

        def patched(up: Topology) -> Topology:
            return lane_patch.all_patched(up, patches, hints)

        with self._changing(if_match, dry_run):
            done = self._set(patched, [*patches], dry_run, confirm_s)
            return replace(done, warnings=[*hints, *done.warnings])

    def replace_lane(
        self, name: str, change: Callable[[Lane], Lane], *, if_match: str = "", dry_run: bool = False,
        confirm_s: float | None = None,
    ) -> Performed:  # fmt: skip
        """Change one lane in use as `change` does. Raises InputError without that lane, and what `change` raises."""

        def changed(up: Topology) -> Topology:
            if name not in up.sites:
                raise InputError.single(no_such("lane", name, up.sites), "query", "lane")
            return up.with_lane(change(up.lane(name)))

        with self._changing(if_match, dry_run):
            return self._set(changed, [name], dry_run, confirm_s)

    def _set(
        self, change: Callable[[Topology], Topology], names: Sequence[str], dry_run: bool, confirm_s: float | None
    ) -> Performed:
        old = self._need_up(min(names))
        if dry_run:
            new = change(old)
            done = self._up(new, dry_run, confirm_s)
            return replace(done, warnings=[*of_change(old, new), *done.warnings])

        def lanes(up: Topology) -> list[Lane]:
            new = change(up)
            return [new.lane(name) for name in names]

        steps = self._appliance.change_lanes(lanes, **self._unless_confirmed(confirm_s))
        what = f"{names[0]} is changed" if len(names) == 1 else f"{len(names)} lanes are changed"
        return self._done(what, steps, False)

    def schedule(
        self, change: Callable[[Topology], Topology], *, if_match: str = "", dry_run: bool = False,
        confirm_s: float | None = None, phase: Phase = None,
    ) -> ScheduleChange:  # fmt: skip
        """Give what is up another schedule, or move the schedule to another `phase`; the lanes stay."""
        with self._changing(if_match, dry_run):
            self.run_turn.refuse_leased()
            before = self._appliance.topology()
            if before is None:
                raise InputError.single("nothing is up: bring a topology up first", "request")
            after = change(before)
            warned = self._appliance.warnings(after)
            coming = self._appliance.coming(after, COMING, phase)
            if dry_run:
                done = self._done("the schedule would change", self._appliance.plan(after, phase), True)
            else:
                steps = self._appliance.reschedule(change, **self._unless_confirmed(confirm_s), phase=phase)
                done = self._done("the schedule is changed", steps, False)
            words = differences(before.schedule, after.schedule)
            return ScheduleChange(replace(done, warnings=[*warned, *done.warnings]), words, coming)

    def add(
        self, trees: Mapping[str, Mapping[str, Any]], *, if_match: str = "", dry_run: bool = False,
        confirm_s: float | None = None, sessions: Collection[str] = (),
    ) -> Performed:  # fmt: skip
        """Add lanes, by name and as in a topology file, to what is up; the others go on as they are."""
        with self._changing(if_match, dry_run):
            hints: list[str] = []
            old = self._need_up(min(trees))
            lanes = new_lanes.read(old, trees, "request", hints)
            new = new_lanes.added(old, lanes, "request")
            known = self._appliance.warnings(old)
            hints += [text for text in self._appliance.warnings(new) if text not in known]
            what = f"{lanes[0].name} {{}} added" if len(lanes) == 1 else f"{len(lanes)} lanes {{}} added"
            if dry_run:
                return self._told(hints, what.format("would be"), self._appliance.plan(new, sessions=sessions), dry_run)
            steps = self._appliance.add_lanes(lanes, **self._unless_confirmed(confirm_s), sessions=sessions)
            return self._told(hints, what.format("is" if len(lanes) == 1 else "are"), steps, dry_run)

    def remove(
        self, name: str, *, if_match: str = "", dry_run: bool = False, confirm_s: float | None = None
    ) -> Performed:
        """Remove one lane; the others go on as they are. The warnings say what else is lost."""
        with self._changing(if_match, dry_run):
            old = self._need_up(name)
            lost = lane_set.lost_with(old, name)
            if dry_run:
                steps = self._appliance.plan(lane_set.removed(old, name))
                return self._told(lost, f"{name} would be removed", steps, dry_run)
            steps = self._appliance.remove_lane(name, **self._unless_confirmed(confirm_s))
            return self._told(lost, f"{name} is removed", steps, dry_run)

    def _need_up(self, name: str) -> Topology:
        """What is up. Raises InputError at this lane when nothing is."""
        topology = self._appliance.topology()
        if topology is None:
            raise InputError.single("nothing is up: bring a topology up first", "request", f"lanes.{name}")
        return topology

    def _told(self, told: Sequence[str], what: str, steps: Sequence[Step], dry_run: bool) -> Performed:
        done = self._done(what, steps, dry_run)
        return replace(done, warnings=[*told, *(text for text in done.warnings if text not in told)])

    def down(self, *, if_match: str = "", dry_run: bool = False) -> Performed:
        """Remove everything that Longhaul set up, even where the intent is spoilt."""
        with self._changing(if_match, dry_run, certain=True):
            steps = self._appliance.plan_down() if dry_run else self._appliance.down()
            return self._done("down", steps, dry_run, certain=True)

    def confirm(self) -> None:
        """Confirm the pending change."""
        with self._changing("", False):
            self._appliance.confirm()

    def revert(self, *, if_match: str = "") -> Performed:
        """Return to what was up before the change that waits for confirmation."""
        waited = self._appliance.unconfirmed()
        with self._changing(if_match, False):
            return self._done("reverted", self._appliance.revert(waited), False)

    def undo(self, *, if_match: str = "") -> Performed:
        """Return to the topology before the last change."""
        waited = self._appliance.unconfirmed()
        with self._changing(if_match, False):
            return self._done("undone", self._appliance.undo(waited), False)

    def history(self) -> Sequence[LoggedChange]:
        """The last changes, newest first."""
        with self._lock:
            return self._appliance.history()

    def last_changes(self) -> Sequence[LoggedChange]:
        """As `history`, read once for all who ask until the intent changes; empty where there is no history."""
        if "history" not in self.can:
            return ()
        with self._lock:
            stamp = self._store.stamp()
            if self._logged is None or self._logged[0] != stamp:
                self._logged = stamp, self._appliance.history()
            return self._logged[1]

    def nics(self, sessions: Collection[str] = ()) -> list[NicRow]:
        """The machine's interfaces; `sessions` as for `up`."""
        with self._lock:
            return self._appliance.nics(sessions=sessions)

    def repair(self, *, restore: bool | None = None) -> RepairOutcome:
        """One check of the watchdog (see `Appliance.repair`); watchers see what it changed as a change."""
        with self._lock:
            found = self._appliance.repair(restore=restore)
            if found.repaired or found.reverted:
                self._changed()
            elif self._is_still(found):
                self._surveyed_s = self._clock()
            else:
                self._status = None
            return found

    def _is_still(self, found: RepairOutcome) -> bool:
        """Whether the last status, but for its counters, is also what this check found."""
        status = self._status[1] if self._status else None
        unchanged = self._store.stamp() == self._stamp
        return found.as_asked and status is not None and status.as_asked and unchanged

    def pending_ns(self) -> int | None:
        """The time left to confirm the pending change."""
        with self._lock:
            return self._appliance.pending_ns()

    def leaseholder(self) -> int | None:
        """The process id of the measurement that leased the lanes; None without a lease."""
        return self._store.leaseholder()

    @contextmanager
    def holding(self) -> Iterator[Topology]:
        """Let nobody change the lanes for the time of the block (`Appliance.hold`); yields what is up. Raises
        RefusedError while a run measures over the lanes."""
        with ExitStack() as until_returned:
            with self._changing("", False):
                self.run_turn.refuse_beside()
                still = until_returned.enter_context(self._appliance.hold())
            try:
                yield still
            finally:
                with self._changing("", False):
                    until_returned.close()

    def follower(self, alarm: Alarm) -> Follower:
        """The player of the active schedule; it takes turns with the requests."""
        return self._appliance.follower(alarm, self._lock)

    @property
    def state_dir(self) -> Path:
        """The folder that stores the intent."""
        return self._appliance.state_dir

    def _up(
        self, topology: Topology, dry_run: bool, confirm_s: float | None, sessions: Collection[str] = ()
    ) -> Performed:
        if dry_run:
            return self._done(f"{topology.name} would be up", self._appliance.plan(topology, sessions=sessions), True)
        steps = self._appliance.up(topology, **self._unless_confirmed(confirm_s), sessions=sessions)
        return self._done(f"{topology.name} is up", steps, False)

    def _unless_confirmed(self, confirm_s: float | None) -> dict[str, Any]:
        """The keyword that makes a change wait for confirmation. Raises InputError where that is not supported, and
        RefusedError while a run measures over the lanes."""
        if confirm_s is None:
            return {}
        if "confirm" not in self.can:
            raise InputError.single("this server does not support confirm: omit it", "query", "confirm")
        self.run_turn.refuse_beside()
        return {"confirm_s": confirm_s}

    def _done(self, what: str, steps: Sequence[Step], dry_run: bool, *, certain: bool = False) -> Performed:
        count = f"{len(steps)} step{'' if len(steps) == 1 else 's'}" if steps else "nothing to change"
        etag, notes = self._etag(certain) or "", self._appliance.take_notes()
        return Performed(f"{what}: {count}", steps, not dry_run, etag, notes)

    def _etag(self, certain: bool) -> str | None:
        """The entity tag. With `certain` it is None where the intent is spoilt: that is nobody's change."""
        try:
            return etag_of(self._appliance.topology())
        except UnreadableError:
            if not certain:
                raise
            return None

    @contextmanager
    def _changing(self, if_match: str, dry_run: bool, *, certain: bool = False) -> Iterator[None]:
        with self._lock:
            if if_match and not (dry_run or certain) and "confirm" in self.can:
                self._appliance.expire()  # else the tag would name what is reverted a moment later
            if if_match and if_match not in ("*", self._etag(certain) or if_match):
                raise Conflict("somebody else has changed the topology: read it again, then change it")
            try:
                yield
            finally:
                if not dry_run:
                    self._changed()

    def _changed(self) -> None:
        self._status, self._asked, self._stamp = None, None, self._store.stamp()
        self.changes += 1
