"""The use cases that change lanes: up, down, set and undo."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from emulator.control.confirmations import Confirmations
from emulator.control.intent_store import Pending
from emulator.control.machine_context import MachineContext, Phase
from emulator.control.transaction import Transaction
from emulator.errors import InputError, Mistake, RefusedError, no_such
from emulator.model import lane_set
from emulator.model.topology import Lane, Topology
from emulator.plan.change_warnings import of_change
from emulator.plan.ops import Step
from emulator.plan.scheduled_state import small_frame_warnings

NOTHING_UP = "no topology is up: bring one up first with longhaul up FILE"
NOTHING_WAITS = "no change waits for confirmation: it was confirmed or reverted before; the history says which"

LaneChange = Callable[[Topology], Sequence[Lane]]
"""Returns new lanes in place of those of the same names."""


class Changes:
    """Each method holds the lock, reverts what expired, and runs one transaction."""

    def __init__(self, machine: MachineContext, confirmations: Confirmations) -> None:
        self._machine, self._confirmations = machine, confirmations

    def up(
        self, topology: Topology, confirm_s: float | None = None, *, sessions: Collection[str] = (),
        anew: bool = False, phase: Phase = None,
    ) -> list[Step]:  # fmt: skip
        """Bring this topology up. Raises RefusedError, KernelError, VerifyError; then nothing changed.

        With `confirm_s` Longhaul reverts it after so many seconds unless somebody calls `confirm` before. `sessions`:
        further addresses of this machine that must stay reachable, such as an API client's. A schedule that is up
        already goes on in its phase, unless it is to begin `anew`, or at a `phase` of its own.
        """
        with self._confirmations.changing(anyhow=True) as old:
            pending = self._confirmations.waiting(old, confirm_s)
            what = f"up {topology.name}"
            change = Transaction(topology, what, pending, anew=anew, phase=phase, sessions=sessions)
            steps = change.run(self._machine)
            self._confirmations.restart(confirm_s)
            return steps

    def down(self) -> list[Step]:
        """Remove all lanes and restore the ports. Ends what waits for confirmation. Raises RefusedError during a
        lease.

        It does so whatever became of the state folder; raises MissingError afterwards when it cannot write there.
        """
        with self._machine.store.locked():
            self._confirmations.refuse_leased()
            return Transaction(None, "down", None, certain=True).run(self._machine)

    def undo(self, waited: Pending | None = None) -> list[Step]:
        """Go back to the topology before the last change, which is itself a change. Raises InputError without one.

        While a change waits for confirmation, go back to what was confirmed, as if its time had expired: with the
        change go all that followed it. `waited` is what waited when the user asked; None: what waits now.
        """
        waited = waited or self._confirmations.unconfirmed()
        with self._machine.store.locked():
            if (steps := self._confirmations.take_back(waited)) is not None:
                return steps
            old = self._confirmations.settled()
            for change in self._machine.history.last(old.change):
                if change.before != change.after:
                    summary = f"undo change {change.number}: {change.summary}"
                    return Transaction(change.before, summary, None).run(self._machine)
            raise InputError.single("there is no change to undo: see longhaul history")

    def revert(self, waited: Pending | None = None) -> list[Step]:
        """Go back to what was up before the change that waits for confirmation, and never further.

        Raises RefusedError when no change waits. `waited` as for `undo`.
        """
        waited = waited or self._confirmations.unconfirmed()
        with self._machine.store.locked():
            steps = self._confirmations.take_back(waited)
            if steps is None:
                raise RefusedError(NOTHING_WAITS)
            return steps

    def change_lanes(self, change: LaneChange, confirm_s: float | None = None) -> list[Step]:
        """Replace lanes by those that `change` returns for what is up, live, all in one. Raises InputError when there
        is no such lane, or when the schedule contradicts one.

        `change` is called under the lock and after the revert of what expired, so it sees what the new lanes replace.
        """
        with self._confirmations.changing() as old:
            if old.topology is None:
                raise InputError.single(NOTHING_UP)
            lanes = change(old.topology)
            names, sites = [lane.name for lane in lanes], old.topology.sites
            if missing := [name for name in names if name not in sites]:
                raise InputError([Mistake("", "", no_such("lane", name, sites)) for name in missing])
            topology, pending = _replaced(old.topology, lanes), self._confirmations.waiting(old, confirm_s)
            steps = Transaction(topology, f"set {' '.join(names)}", pending, only=names).run(self._machine)
            for text in of_change(old.topology, topology) + self._of_small_frames(old.topology, topology):
                self._machine.note(text)
            self._confirmations.restart(confirm_s)
            return steps

    def reschedule(
        self, change: Callable[[Topology], Topology], confirm_s: float | None = None, *, phase: Phase = None
    ) -> list[Step]:
        """Give what is up the schedule that `change` gives it, at this `phase`; `change` is called as by
        `change_lanes`."""
        with self._confirmations.changing() as old:
            if old.topology is None:
                raise InputError.single(NOTHING_UP)
            topology, pending = change(old.topology), self._confirmations.waiting(old, confirm_s)
            steps = Transaction(topology, f"up {topology.name}", pending, phase=phase).run(self._machine)
            self._confirmations.restart(confirm_s)
            return steps

    def end_schedule(self, played: Topology, change: Callable[[Topology], Topology]) -> bool:
        """Bring up what is up without its schedule, and as `change` says, as far as the ports are still there.

        Returns False when something other than the schedule of `played` is up, which then stays as it is.
        """
        with self._confirmations.changing() as old:
            if old.topology is None or old.topology.schedule != played.schedule:
                return False
            topology = change(replace(old.topology, schedule=None))
            Transaction(topology, f"end the schedule of {topology.name}", old.pending, certain=True).run(self._machine)
            return True

    def add_lanes(
        self, lanes: Sequence[Lane], confirm_s: float | None = None, *, sessions: Collection[str] = ()
    ) -> list[Step]:
        """Add lanes to what is up; the others go on as they are. Raises InputError when a name is taken."""
        names = " ".join(lane.name for lane in lanes)
        return self._with_lanes(lambda up: lane_set.added(up, lanes), f"add {names}", confirm_s, sessions)

    def remove_lane(self, name: str, confirm_s: float | None = None) -> list[Step]:
        """Remove one lane with its flows and its part of the schedule; the others go on as they are.

        Raises InputError when there is no such lane.
        """
        return self._with_lanes(lambda up: lane_set.removed(up, name), f"remove {name}", confirm_s)

    def _with_lanes(
        self, change: Callable[[Topology], Topology], summary: str, confirm_s: float | None,
        sessions: Collection[str] = (),
    ) -> list[Step]:  # fmt: skip
        """Bring up what is up with other lanes; a schedule goes on in its phase, although it may lose tracks."""
        with self._confirmations.changing() as old:
            if old.topology is None:
                raise InputError.single(NOTHING_UP)
            try:
                topology = change(old.topology)
            except ValueError as error:
                raise InputError.single(str(error)) from None
            pending = self._confirmations.waiting(old, confirm_s)
            began_ns = old.began_ns if topology.schedule else None
            steps = Transaction(topology, summary, pending, began_ns, sessions=sessions).run(self._machine)
            self._confirmations.restart(confirm_s)
            return steps

    def _of_small_frames(self, old: Topology, new: Topology) -> list[str]:
        """The small frames that the lanes drop since this change."""
        kernel = self._machine.kernel
        if not small_frame_warnings(new, kernel.ports_of(frozenset()), before=old):
            return []  # nearly always, and without a look at the whole machine, which says whether netem is missing
        return small_frame_warnings(new, kernel.observe(), before=old)


def _replaced(topology: Topology, lanes: Sequence[Lane]) -> Topology:
    wrong = []
    for lane in lanes:
        try:
            topology = lane_set.replaced(topology, lane)
        except ValueError as error:
            wrong.append(Mistake("", lane.name, str(error)))
    if wrong:
        raise InputError(wrong)
    return topology
