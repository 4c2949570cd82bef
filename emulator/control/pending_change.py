"""Intent and history together: what is asked for, what led there, and what of it does not last.

All under the store's lock, which whoever changes something holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from emulator.control.change_log import Author, History, LoggedChange
from emulator.control.intent_store import Intent, IntentStore, Pending
from emulator.control.status import PendingStatus
from emulator.errors import InputError, RefusedError
from emulator.plan.ops import Step
from emulator.system.clock import Clock


class Ledger:
    """The state folder's intent and history by one clock."""

    def __init__(self, store: IntentStore, history: History, clock: Clock) -> None:
        self._store, self._history, self._clock = store, history, clock

    def left_ns(self, pending: Pending) -> int | None:
        """The time until it is taken back, 0 or less when it is overdue; None while its leaseholder lives."""
        if pending.leased:
            return 0 if self._store.leaseholder() is None else None
        return pending.left_ns(self._clock)

    def pending_status(self, pending: Pending | None) -> PendingStatus | None:
        """What is pending, for the status."""
        if pending is None:
            return None
        return PendingStatus(self.left_ns(pending), pending.base.name if pending.base else None)

    def is_overdue(self, pending: Pending) -> bool:
        """Whether it was not confirmed in time, or its leaseholder is gone."""
        return (left_ns := self.left_ns(pending)) is not None and left_ns <= 0

    def refuse_leased(self) -> None:
        """Raises RefusedError while a process that lives has leased the lanes."""
        pending = self._store.read().pending
        if pending and pending.leased and (pid := self._store.leaseholder()) is not None:
            raise RefusedError(f"a test run (process {pid}) has leased the lanes: wait for its end, or end it")

    def confirm(self) -> None:
        """Keep what waits to be confirmed. Raises InputError when nothing does, RefusedError when it is too late."""
        now = self._store.read()
        if now.pending is None:
            raise InputError.single("nothing waits to be confirmed: see longhaul history")
        self.refuse_leased()
        if self.is_overdue(now.pending):
            raise RefusedError("too late: it is being taken back; see longhaul status, then longhaul undo")
        self._store.write(replace(now, pending=None))

    def waiting(self, new: Intent, old: Intent, confirm_ns: int | None) -> Intent:
        """The new intent with `confirm_ns` from now to confirm it in, or else go back to the old one.

        What is pending already keeps its base: a second change does not make the first one safe. None changes nothing.
        """
        if confirm_ns is None:
            return new
        deadline_ns, boot_id = self._clock.boottime_ns() + confirm_ns, self._clock.boot_id()
        if new.pending:
            return replace(new, pending=replace(new.pending, deadline_ns=deadline_ns, boot_id=boot_id))
        return replace(new, pending=Pending(deadline_ns, boot_id, old.topology, old.began_ns))

    def with_lease(self, new: Intent, old: Intent) -> Intent:
        """The new intent for as long as its leaseholder lives."""
        return replace(new, pending=Pending(0, self._clock.boot_id(), old.topology, old.began_ns, leased=True))

    def enter(self, new: Intent, old: Intent, summary: str, author: Author) -> Intent:
        """Put the new intent on the disk, before it the change that leads to it if it is to last; with its number."""
        if new.lasting != old.lasting:
            new = replace(new, change=old.change + 1)
            self._history.write(LoggedChange(new.change, self._today(), author, summary, old.lasting, new.lasting))
        if new != old:
            self._store.write(new)
        return new

    def note_repair(self, now: Intent, steps: Sequence[Step], author: Author) -> None:
        """Note what had to be done though nothing else was asked for."""
        if not steps:
            return
        summary = f"{len(steps)} step{'s' * (len(steps) > 1)}: {steps[0].why}"
        repair = LoggedChange(now.change, self._today(), author, summary, now.lasting, now.lasting)
        if (number := self._history.repaired(repair)) != now.change:
            self._store.write(replace(now, change=number))

    def _today(self) -> str:
        return self._clock.today().isoformat()
