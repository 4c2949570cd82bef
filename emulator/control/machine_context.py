"""What all use cases of one machine share: its kernel, its state folder, its clock and who acts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from emulator.control import revert_start
from emulator.control.change_log import Author, History, LoggedChange, here
from emulator.control.intent_store import Intent, IntentStore
from emulator.kernel.protocol import Kernel
from emulator.model.topology import Topology
from emulator.plan.ops import Step
from emulator.plan.scheduled_state import began, present
from emulator.system.clock import Clock, SystemClock


@dataclass(frozen=True)
class MachineContext:
    """One machine. The kernel holds the lanes' state, `folder` the intent and the change log.

    `guard` starts the process that reverts a change which nobody confirms. `sessions` are addresses of this machine
    that somebody is connected to: Longhaul never takes their port. `recover` restores the settings that killed
    measurements left on the hosts.
    """

    kernel: Kernel
    folder: Path
    sessions: Collection[str] = ()
    author: Author = field(default_factory=lambda: here("longhaul"))
    clock: Clock = field(default_factory=SystemClock)
    guard: Callable[[Path], None] = revert_start.start
    recover: Callable[[], object] = list

    @cached_property
    def store(self) -> IntentStore:
        """The intent on disk."""
        return IntentStore(self.folder)

    @cached_property
    def history(self) -> History:
        """The change log on disk."""
        return History(self.folder / "changes")

    def by(self, command: str) -> Author:
        """The author, with `command` as the cause of a change."""
        return replace(self.author, command=command)

    def began_ns(self, topology: Topology | None, old: Intent, *, anew: bool = False) -> int | None:
        """When the topology's schedule is at 0, in ns since 1970. A schedule that is up goes on, unless `anew`."""
        return began(topology, old.topology, None if anew else old.began_ns, self.clock.unix_ns())

    def scheduled(self, topology: Topology, began_ns: int | None) -> Topology:
        """The topology as its schedule has it now."""
        return present(topology, began_ns, self.clock.unix_ns())

    def enter(self, new: Intent, old: Intent, summary: str, author: Author) -> Intent:
        """Write the new intent to the disk; before it, if it is to last, the logged change. Returns it numbered."""
        if new.lasting != old.lasting:
            new = replace(new, change=old.change + 1)
            self.history.write(LoggedChange(new.change, self._today(), author, summary, old.lasting, new.lasting))
        if new != old:
            self.store.write(new)
        return new

    def note_repair(self, now: Intent, steps: Sequence[Step], author: Author) -> None:
        """Log the steps that were necessary although nobody asked for anything else."""
        if not steps:
            return
        summary = f"{len(steps)} step{'s' * (len(steps) > 1)}: {steps[0].why}"
        repair = LoggedChange(now.change, self._today(), author, summary, now.lasting, now.lasting)
        if (number := self.history.repaired(repair)) != now.change:
            self.store.write(replace(now, change=number))

    def _today(self) -> str:
        return self.clock.today().isoformat()
