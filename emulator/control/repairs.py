"""What the watchdog does at each look: revert what expired, find drift, repair it."""

from __future__ import annotations

from emulator.control import reconcile
from emulator.control.change_log import WATCHDOG
from emulator.control.confirmations import Confirmations
from emulator.control.machine_context import MachineContext
from emulator.control.reconcile import UnsettledError
from emulator.control.transaction import of_blocked
from emulator.plan.desired_state import remembering
from emulator.plan.planner import plan
from emulator.plan.repair import RepairOutcome, RepairPlan, repair_plan_now, revived
from emulator.plan.state import State


class Repairs:
    """Compares the kernel with the intent and repairs what differs."""

    def __init__(self, machine: MachineContext, confirmations: Confirmations) -> None:
        self._machine, self._confirmations = machine, confirmations

    def repair(self, *, restore: bool | None = None) -> RepairOutcome:
        """Revert what is overdue, look for drift, and repair it. Raises KernelError, VerifyError.

        `restore` None does as the topology says (`on_drift`). In any case Longhaul starts an engine again that died,
        for nobody asked for its end. It does not touch healthy lanes, nor lanes that a new state folder does not know.
        """
        machine, store = self._machine, self._machine.store
        with store.locked():
            reverted = self._confirmations.expire_locked()
            machine.recover_hosts()
            now, at_ns, known = store.read(), machine.clock.unix_ns(), store.is_known()
            patient = restore is not True
            if restore is None:
                restore = bool(now.topology and now.topology.on_drift == "restore")

            def look() -> tuple[State, RepairPlan, State]:
                have = remembering(machine.kernel.observe(), now.topology)
                found = repair_plan_now(now.topology, now.began_ns, at_ns, have, patient=patient)
                return have, found, found.goal if restore and known else revived(found.goal, have)

            have, found, goal = look()
            try:
                steps = reconcile.apply(machine.kernel, goal, have)
            except UnsettledError:
                have, found, goal = look()
                steps = reconcile.apply(machine.kernel, goal, have)
            machine.note_repair(now, steps, machine.by(WATCHDOG))
            told = of_blocked(found.blocked)  # by `blocked` itself
            notes = [note for note in machine.take_notes() if note not in told]
            return RepairOutcome(reverted, steps, plan(found.goal, goal), dict(found.blocked), known, notes)
