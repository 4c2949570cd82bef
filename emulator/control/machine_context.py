"""What all use cases of one machine share: its kernel, its state folder, its clock and who acts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from emulator.control import revert_start
from emulator.control.change_log import Author, History, LoggedChange, actor, here
from emulator.control.intent_store import Intent, IntentStore, UnreadableError
from emulator.errors import MissingError
from emulator.kernel.protocol import Kernel
from emulator.model.topology import Topology
from emulator.plan.ops import Step
from emulator.plan.scheduled_state import began, present
from emulator.system.clock import Clock, SystemClock
from emulator.system.kept_file import set_aside

Phase = int | Literal["kept", "anew"] | None
"""Where a schedule is when a change is made: at so many ns of its own time, where the schedule before it is (`kept`),
or at its start (`anew`). None: a schedule that is up goes on, another one begins as its `start` says."""


class MachineContext(Struct, frozen=True, dict=True):
    """One machine. The kernel holds the lanes' state, `folder` the intent and the change log.

    `guard` starts the process that reverts a change which nobody confirms. `sessions` are addresses of this machine
    that somebody is connected to: Longhaul never takes their port. `recover` restores the settings that killed
    measurements left on the hosts and returns why it could not. `notes` collects what the user must know although
    nothing failed.
    """

    kernel: Kernel
    folder: Path
    sessions: Collection[str] = ()
    author: Author = field(default_factory=lambda: here("longhaul"))
    clock: Clock = field(default_factory=SystemClock)
    guard: Callable[[Path], None] = revert_start.start
    recover: Callable[[], Sequence[str]] = list
    notes: list[str] = field(default_factory=list)

    @cached_property
    def store(self) -> IntentStore:
        """The intent on disk."""
        return IntentStore(self.folder)

    @cached_property
    def history(self) -> History:
        """The change log on disk."""
        return History(self.folder / "changes", self.note)

    def note(self, text: str) -> None:
        """Tell the user this, once, after what is being done."""
        if text not in self.notes:
            self.notes.append(text)

    def take_notes(self) -> list[str]:
        """The notes since the last call."""
        taken, self.notes[:] = list(self.notes), []
        return taken

    def recover_hosts(self) -> None:
        """Restore what killed measurements left; what cannot be restored becomes a note."""
        for reason in self.recover():
            self.note(reason)

    def regained(self) -> Intent:
        """Under the lock: the intent. What cannot be read is set aside, and its copy takes its place, which there is
        while something waits to be reverted; else the history's last change.

        That change may be one that never took effect, so the kernel alone says what is up.
        """
        try:
            return self.store.read()
        except UnreadableError as error:
            intent, told = self._found_again()
            aside = f"{error.file} cannot be read: {error.why}"
            try:
                aside += f"; it is now {set_aside(error.file)}"
            except OSError as refused:
                aside += f"; it cannot be renamed: {refused.strerror}"
        self.note(f"{aside}. {told}")
        with contextlib.suppress(MissingError):
            self.save(intent)
        return intent

    def _found_again(self) -> tuple[Intent, str]:
        """The intent in place of a spoilt one, and what to tell the user of it."""
        if copy := self.store.waiting():
            return copy, "Its copy takes its place, which says what to revert"
        last = self.history.newest()
        topology, number = (last.after, last.number) if last else (None, 0)
        offer = f"{topology.name} (change {number}): longhaul undo brings it up" if topology else "none"
        intent = Intent(topology, number, began_ns=self.began_ns(topology, Intent()))
        return intent, f"The last topology in the history is {offer}"

    @property
    def acting(self) -> Author:
        """Who makes the changes now: the client whose request this thread serves, else this process's author."""
        return actor() or self.author

    def by(self, command: str) -> Author:
        """This process's author, with `command` as the cause of a change."""
        return replace(self.author, command=command)

    def began_ns(
        self, topology: Topology | None, old: Intent, *, anew: bool = False, phase: Phase = None
    ) -> int | None:
        """When the topology's schedule is at 0, in ns since 1970. A schedule that is up goes on, unless `anew`."""
        if phase is not None and topology is not None and topology.schedule is not None:
            if not isinstance(phase, str):
                return self.clock.unix_ns() - phase
            if phase == "kept" and old.began_ns is not None:
                return old.began_ns
        return began(topology, old.topology, None if anew or phase == "anew" else old.began_ns, self.clock.unix_ns())

    def scheduled(self, topology: Topology, began_ns: int | None) -> Topology:
        """The topology as its schedule has it now."""
        return present(topology, began_ns, self.clock.unix_ns())

    def enter(self, new: Intent, old: Intent, summary: str, author: Author) -> Intent:
        """Write the new intent to the disk; before it, if it is to last, the logged change. Returns it numbered.

        Raises MissingError when there is no room for it, and for what must be written to leave it again.
        """
        new = self._numbered(new, old)
        if new != old:
            self.store.keep_room(new)
        if new.change != old.change:
            self._log(new, old, summary, author)
        if new != old:
            self.store.write(new)
        return new

    def leave(self, new: Intent, old: Intent, summary: str, author: Author) -> tuple[Intent, MissingError | None]:
        """`enter` for a change that no disk may prevent: with the room kept for it. Returns why the intent is not
        written, None when it is."""
        new = self._numbered(new, old)
        if new.change != old.change:
            try:
                self._with_room(lambda: self._log(new, old, summary, author))
            except MissingError as error:
                self.note(f"the history lacks this change: {error}")
        try:
            if new != old:
                self.save(new)
        except MissingError as error:
            return new, error
        if new.topology is None:
            self.store.free_room()
        return new, None

    def save(self, intent: Intent) -> None:
        """Write the intent, if need be into the room that is kept. Raises MissingError."""
        self._with_room(lambda: self.store.write(intent))

    def _with_room(self, write: Callable[[], object]) -> None:
        try:
            write()
        except MissingError:
            self.store.free_room()
            write()

    def _numbered(self, new: Intent, old: Intent) -> Intent:
        return replace(new, change=old.change + 1) if new.lasting != old.lasting else new

    def _log(self, new: Intent, old: Intent, summary: str, author: Author) -> None:
        self.history.write(LoggedChange(new.change, self._today(), author, summary, old.lasting, new.lasting))

    def note_repair(self, now: Intent, steps: Sequence[Step], author: Author) -> None:
        """Log the steps that were necessary although nobody asked for anything else."""
        if not steps:
            return
        summary = f"{len(steps)} step{'s' * (len(steps) > 1)}: {steps[0].why}"
        repair = LoggedChange(now.change, self._today(), author, summary, now.lasting, now.lasting)
        try:
            if (number := self.history.repaired(repair)) != now.change:
                self.store.write(replace(now, change=number))
        except MissingError as error:
            self.note(f"the history lacks this repair: {error}")

    def _today(self) -> str:
        return self.clock.today().isoformat()
