"""One machine's lanes: the facade through which command line, web, watchdog and experiments use them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from emulator.control import revert_start
from emulator.control.change_log import Author, LoggedChange, here
from emulator.control.changes import Changes, LaneChange
from emulator.control.confirmations import Confirmations
from emulator.control.intent_store import Pending
from emulator.control.machine_context import MachineContext, Phase
from emulator.control.queries import Queries
from emulator.control.repairs import Repairs
from emulator.control.schedule_player import NOBODY, Follower
from emulator.control.status import Status
from emulator.kernel.protocol import Kernel
from emulator.model.topology import Lane, Topology
from emulator.plan.nic_inventory import NicRow
from emulator.plan.ops import Step
from emulator.plan.repair import RepairOutcome
from emulator.plan.schedule_preview import ComingChange
from emulator.system.clock import Clock, SystemClock
from emulator.system.timer import Alarm


class Appliance:
    """One machine's lanes. `state_dir` holds the intent and the change log, the kernel the state.

    Each method is a use case and takes the lock that it needs; `MachineContext` explains the parameters, and the class
    that a method calls (`Changes`, `Confirmations`, `Queries`, `Repairs`) its arguments and errors.
    """

    def __init__(
        self, kernel: Kernel, state_dir: Path, sessions: Collection[str] = (), *, author: Author | None = None,
        clock: Clock | None = None, guard: Callable[[Path], None] = revert_start.start,
        recover: Callable[[], Sequence[str]] = list,
    ) -> None:  # fmt: skip
        author, clock = author or here("longhaul"), clock or SystemClock()
        self._machine = machine = MachineContext(kernel, state_dir, sessions, author, clock, guard, recover)
        self._confirmations = confirmations = Confirmations(machine)
        self._changes, self._queries = Changes(machine, confirmations), Queries(machine, confirmations)
        self._repairs = Repairs(machine, confirmations)

    def close(self) -> None:
        """Close the connection to the kernel; the lanes stay up."""
        self._machine.kernel.close()

    @property
    def state_dir(self) -> Path:
        """The folder that holds the intent."""
        return self._machine.folder

    def follower(self, alarm: Alarm, guard: AbstractContextManager[object] = NOBODY) -> Follower:
        """Plays the schedule of what is up; `guard` keeps it from the kernel while others use that."""
        return Follower(self._machine.kernel, self._machine.store, alarm, guard)

    def take_notes(self) -> list[str]:
        """What the user must know of the calls since the last one: files set aside, or that could not be written."""
        return self._machine.take_notes()

    def up(
        self, topology: Topology, confirm_s: float | None = None, *, sessions: Collection[str] = (),
        anew: bool = False, phase: Phase = None,
    ) -> list[Step]:  # fmt: skip
        """Bring this topology up (`Changes.up`)."""
        return self._changes.up(topology, confirm_s, sessions=sessions, anew=anew, phase=phase)

    def down(self) -> list[Step]:
        """Remove all lanes and restore the ports."""
        return self._changes.down()

    def undo(self, waited: Pending | None = None) -> list[Step]:
        """Go back to the topology before the last change (`Changes.undo`)."""
        return self._changes.undo(waited)

    def unconfirmed(self) -> Pending | None:
        """The change that waits for confirmation at this moment."""
        return self._confirmations.unconfirmed()

    def revert(self, waited: Pending | None = None) -> list[Step]:
        """Go back to what was up before the change that waits for confirmation (`Changes.revert`)."""
        return self._changes.revert(waited)

    def set_lane(self, lane: Lane, confirm_s: float | None = None) -> list[Step]:
        """Replace the lane of that name, live."""
        return self.set_lanes([lane], confirm_s)

    def set_lanes(self, lanes: Sequence[Lane], confirm_s: float | None = None) -> list[Step]:
        """Replace the lanes of those names, live, all in one."""
        return self._changes.change_lanes(lambda _: lanes, confirm_s)

    def change_lanes(self, change: LaneChange, confirm_s: float | None = None) -> list[Step]:
        """Replace lanes as `change` says, live, all in one (`Changes.change_lanes`)."""
        return self._changes.change_lanes(change, confirm_s)

    def reschedule(
        self, change: Callable[[Topology], Topology], confirm_s: float | None = None, *, phase: Phase = None
    ) -> list[Step]:
        """Give what is up another schedule (`Changes.reschedule`)."""
        return self._changes.reschedule(change, confirm_s, phase=phase)

    def end_schedule(self, played: Topology, change: Callable[[Topology], Topology]) -> bool:
        """Bring up what is up without the schedule of `played` (`Changes.end_schedule`)."""
        return self._changes.end_schedule(played, change)

    def add_lanes(
        self, lanes: Sequence[Lane], confirm_s: float | None = None, *, sessions: Collection[str] = ()
    ) -> list[Step]:
        """Add lanes to what is up (`Changes.add_lanes`)."""
        return self._changes.add_lanes(lanes, confirm_s, sessions=sessions)

    def remove_lane(self, name: str, confirm_s: float | None = None) -> list[Step]:
        """Remove one lane (`Changes.remove_lane`)."""
        return self._changes.remove_lane(name, confirm_s)

    def confirm(self) -> None:
        """Keep the change that waits for confirmation."""
        self._confirmations.confirm()

    def expire(self) -> bool:
        """Revert what nobody confirmed in time; False when there is no such change."""
        return self._confirmations.expire()

    def pending_ns(self) -> int | None:
        """The time left to confirm the pending change."""
        return self._confirmations.pending_ns()

    def lease(self, topology: Topology) -> AbstractContextManager[None]:
        """Bring this topology up for the time of a block (`Confirmations.lease`)."""
        return self._confirmations.lease(topology)

    def hold(self) -> AbstractContextManager[Topology]:
        """Let nobody change the lanes for the time of a block (`Confirmations.hold`)."""
        return self._confirmations.hold()

    def repair(self, *, restore: bool | None = None) -> RepairOutcome:
        """What the watchdog does at each look (`Repairs.repair`)."""
        return self._repairs.repair(restore=restore)

    def is_played(self) -> bool:
        """Whether a process plays schedules here: the daemon, or `longhaul schedule run`."""
        return self._machine.store.is_played()

    def topology(self) -> Topology | None:
        """The topology that the user asked for; None when no topology is up."""
        return self._queries.topology()

    def history(self, count: int = 50) -> list[LoggedChange]:
        """The last changes, newest first."""
        return self._queries.history(count)

    def status(self) -> Status:
        """The intent and the kernel's state side by side."""
        return self._queries.status()

    def recounted(self, status: Status) -> Status:
        """The same status with the counters of now."""
        return self._queries.recounted(status)

    def plan(self, topology: Topology, phase: Phase = None, *, sessions: Collection[str] = ()) -> list[Step]:
        """The steps that `up` would take."""
        return self._queries.plan(topology, phase, sessions)

    def coming(self, topology: Topology, count: int, phase: Phase = None) -> list[ComingChange]:
        """The first changes that the topology's schedule would make after `up`."""
        return self._queries.coming(topology, count, phase)

    def plan_down(self) -> list[Step]:
        """The steps that `down` would take."""
        return self._queries.plan_down()

    def warnings(self, topology: Topology) -> list[str]:
        """What `up` would do although the user likely does not mean it."""
        return self._queries.warnings(topology)

    def nics(self, *, sessions: Collection[str] = ()) -> list[NicRow]:
        """Every interface that could be a port, or why it cannot."""
        return self._queries.nics(sessions)

    def port_names(self, names: Sequence[str]) -> list[str]:
        """The interfaces that these names of any kind mean."""
        return self._queries.port_names(names)
