"""One change of the intent and of the kernel: Longhaul makes both, or neither.

The intent goes to the disk before the kernel changes: a process killed from there on leaves the next start the intent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from emulator.control import reconcile
from emulator.control.change_log import Author
from emulator.control.intent_store import Intent, Pending
from emulator.control.machine_context import MachineContext, Phase
from emulator.control.reconcile import UnsettledError
from emulator.errors import MissingError, RefusedError
from emulator.model.topology import Topology
from emulator.plan.desired_state import nothing, remembering
from emulator.plan.ops import Step
from emulator.plan.partial import narrow, ports_of
from emulator.plan.preconditions import refuse, setting_reasons
from emulator.plan.repair import repair_plan
from emulator.plan.scheduled_state import wanted_at
from emulator.plan.state import State

View = tuple[State, State, Callable[[], State] | None]
"""The state to reach, the state now, and how to observe it again (None: the whole kernel)."""


class Transaction(Struct, frozen=True):
    """What to change to: the topology (None: no lanes) and what is then `pending`.

    `began_ns` says when the topology's schedule began; None works it out, `anew` starts the schedule again, and `phase`
    says where it is (`Phase`). `only` names the lanes that the change is about; empty means all. `sessions` are further
    addresses of this machine whose port must stay. `author` is who acts when None. `certain`: the change returns
    ports, so nothing prevents it: no file of the state folder, spoilt or not writable, and no lane that cannot be
    brought up, which then stays as it is.
    """

    topology: Topology | None
    summary: str
    pending: Pending | None
    began_ns: int | None = None
    anew: bool = False
    phase: Phase = None
    only: Sequence[str] = ()
    sessions: Collection[str] = ()
    author: Author | None = None
    certain: bool = False

    def run(self, machine: MachineContext) -> list[Step]:
        """Make the change, under the store's lock. Raises RefusedError, KernelError, VerifyError; then the intent
        and the kernel are as they were before."""
        machine.recover_hosts()
        old = machine.regained() if self.certain else machine.store.read()
        new, author = self._intent(old, machine), self.author or machine.acting
        view, unsaved = self._view(old, new, machine), None
        if self.certain:
            new, unsaved = machine.leave(new, old, self.summary, author)
        else:
            new = machine.enter(new, old, self.summary, author)
        steps = self._apply(machine, view, old, new)
        if unsaved:
            raise _half_done(new, unsaved)
        if old.topology == self.topology and not (self._reverts(old) and not new.leased):
            machine.note_repair(new, steps, author)
        return steps

    def _reverts(self, old: Intent) -> bool:
        """Whether a process must watch over this change and revert it later."""
        return self.pending is not None and self.pending != old.pending

    def _intent(self, old: Intent, machine: MachineContext) -> Intent:
        began_ns = self.began_ns
        if began_ns is None:
            began_ns = machine.began_ns(self.topology, old, anew=self.anew, phase=self.phase)
        return replace(old, topology=self.topology, pending=self.pending, began_ns=began_ns)

    def _apply(self, machine: MachineContext, view: View, old: Intent, new: Intent) -> list[Step]:
        """Bring the kernel to the new state; any failure writes the old intent back."""
        want, have, look = view
        try:
            if self._reverts(old):
                machine.guard(machine.folder)
            try:
                return reconcile.apply(machine.kernel, want, have, look)
            except UnsettledError:
                return reconcile.apply(machine.kernel, *self._view(old, new, machine))
        except BaseException as failure:
            try:
                machine.save(old)
            except MissingError as error:
                failure.add_note(f"the intent still asks for the change: {error}")
            raise

    def _view(self, old: Intent, new: Intent, machine: MachineContext) -> View:
        """The states before and after: of the changed lanes alone where that is enough."""
        if old.topology and new.topology and self.only:
            partial = self._partial_view(old.topology, new.topology, machine)
            if partial is not None:
                return partial
        have = remembering(machine.kernel.observe(), old.topology)
        if new.topology is None:
            return nothing(have), have, None
        scheduled = machine.scheduled(new.topology, new.began_ns)
        if self.certain:
            found = repair_plan(scheduled, have, new.topology)
            for note in of_blocked(found.blocked):
                machine.note(note)
            return found.goal, have, None
        refuse(new.topology, have, {*machine.sessions, *self.sessions})
        return wanted_at(new.topology, scheduled, have), have, None

    def _partial_view(self, old: Topology, new: Topology, machine: MachineContext) -> View | None:
        ports = ports_of(lanes := [lane for lane in old.lanes if lane.name in self.only])
        # A port on a NIC needs the whole view: other names, TX queues, offloads, trunks.
        have = State() if any(lane.ports for lane in lanes) else machine.kernel.ports_of(ports)
        pair = narrow(old, new, self.only, have)
        if not pair:
            return None
        if reasons := setting_reasons(new, have.machine):
            raise RefusedError("\n".join(reasons))
        return *pair, lambda: machine.kernel.ports_of(ports)


def of_blocked(blocked: Mapping[str, str]) -> list[str]:
    """The notes on lanes that a revert does not reach; `blocked` holds the reasons by lane."""
    return [f"lane {lane} cannot be reverted and stays as it is: {why}" for lane, why in blocked.items()]


def _half_done(new: Intent, unsaved: MissingError) -> MissingError:
    """The kernel is as asked for, the intent is not: whoever starts next would undo that."""
    done = f"{new.topology.name} is up again" if new.topology else "the lanes are removed and the ports returned"
    text = f"{done}, but the intent still asks for what was up before, and the daemon would bring that up"
    return MissingError(f"{text}: {unsaved}; then run longhaul down again")
