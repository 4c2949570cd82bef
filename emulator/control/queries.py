"""The use cases that change nothing: status, plan, NICs, warnings and history."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from emulator.control import status
from emulator.control.change_log import LoggedChange
from emulator.control.confirmations import Confirmations
from emulator.control.machine_context import MachineContext, Phase
from emulator.control.schedule_player import noted
from emulator.control.status import Status, lane_status
from emulator.model.topology import Topology
from emulator.plan import change_warnings, nic_inventory, preconditions
from emulator.plan.desired_state import nothing
from emulator.plan.nic_inventory import NicRow
from emulator.plan.ops import Step
from emulator.plan.planner import plan
from emulator.plan.repair import repair_plan_now
from emulator.plan.schedule_preview import ComingChange, coming
from emulator.plan.scheduled_state import small_frame_warnings, wanted_at
from emulator.plan.small_frames import datapath


class Queries:
    """Reads the intent from the disk and the state from the kernel."""

    def __init__(self, machine: MachineContext, confirmations: Confirmations) -> None:
        self._machine, self._confirmations = machine, confirmations
        self._kernel, self._store = machine.kernel, machine.store

    def topology(self) -> Topology | None:
        """The topology that the user asked for; None when no topology is up."""
        return self._store.read().topology

    def history(self, count: int = 50) -> list[LoggedChange]:
        """The last changes, newest first."""
        return self._machine.history.last(self._store.read().change, count)

    def plan(self, topology: Topology, phase: Phase = None, sessions: Collection[str] = ()) -> list[Step]:
        """The steps that `up` would take; `sessions` as there. Raises RefusedError."""
        have = self._kernel.observe()
        preconditions.refuse(topology, have, {*self._machine.sessions, *sessions})
        began_ns = self._machine.began_ns(topology, self._store.read(), phase=phase)
        return plan(wanted_at(topology, self._machine.scheduled(topology, began_ns), have), have)

    def coming(self, topology: Topology, count: int, phase: Phase = None) -> list[ComingChange]:
        """The first changes that the topology's schedule would make after `up`."""
        began_ns = self._machine.began_ns(topology, self._store.read(), phase=phase)
        if began_ns is None:
            return []
        return coming(topology, self._kernel.observe(), self._machine.clock.unix_ns() - began_ns, count)

    def plan_down(self) -> list[Step]:
        """The steps that `down` would take."""
        return plan(nothing(have := self._kernel.observe()), have)

    def warnings(self, topology: Topology) -> list[str]:
        """What `up` would do although the user likely does not mean it."""
        told = change_warnings.of_topology(topology)
        virtual = all(lane.ports is None for lane in topology.lanes)
        have = self._kernel.observe()
        return told + ([] if virtual else preconditions.warnings(topology, have)) + small_frame_warnings(topology, have)

    def nics(self, sessions: Collection[str] = ()) -> list[NicRow]:
        """Every interface that could be a port, or why it cannot; `sessions` as for `up`."""
        return nic_inventory.nic_rows(self._kernel.observe(), {*self._machine.sessions, *sessions})

    def port_names(self, names: Sequence[str]) -> list[str]:
        """The interfaces that these names of any kind mean. Raises InputError when one means none, or several."""
        return nic_inventory.port_names(names, self._kernel.observe())

    def status(self) -> Status:
        """The intent and the kernel's state side by side."""
        unchanged = self._store.unchanged()
        now, have, at_ns = self._store.read(), self._kernel.observe(), self._machine.clock.unix_ns()
        found, counted = repair_plan_now(now.topology, now.began_ns, at_ns, have), self._kernel.counters()
        asked = self._machine.scheduled(now.topology, now.began_ns).lanes if now.topology else ()
        lanes = tuple(lane_status(lane, have, counted) for lane in asked)
        pending, late = self._confirmations.pending_status(now.pending), noted(self._machine.folder, now.began_ns)
        path = datapath(now.topology, have.machine) if now.topology else "netem"
        changing = bool(found.steps or found.blocked) and not unchanged()
        played_ns = None if now.began_ns is None else at_ns - now.began_ns
        return Status(now.topology, found.steps, lanes, found.blocked, pending, path, late, changing, played_ns)

    def recounted(self, old: Status) -> Status:
        """The same status with the counters of now, for a fifth of the cost."""
        return status.recounted(old, self._kernel.counters())
