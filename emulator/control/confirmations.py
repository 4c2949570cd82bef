"""Changes that do not last: those that wait for confirmation, and leases of test runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from msgspec.structs import replace

from emulator.control.change_log import REVERT, Author
from emulator.control.intent_store import Intent, Pending, UnreadableError
from emulator.control.machine_context import MachineContext
from emulator.control.status import PendingStatus
from emulator.control.transaction import Transaction
from emulator.errors import InputError, MissingError, RefusedError
from emulator.model.topology import Topology
from emulator.plan.ops import Step
from emulator.units import format_duration

ON_TIME_NS = 100_000_000
"""How much of the time to confirm may pass while it is written down: nobody who reads a countdown notices."""
MOST_TRIES = 4
WAITS = "a change waits for confirmation: run longhaul confirm or longhaul undo first"
UNCONFIRMED = "undo what waited for confirmation"
"""What the change log says when a user reverts an unconfirmed change."""


def leased_by(pid: int) -> RefusedError:
    """The refusal of a change while a process leases the lanes; that may be the daemon, which must not be ended."""
    return RefusedError(f"a measurement (process {pid}) has leased the lanes: wait for its end, or cancel it")


class Confirmations:
    """Confirms a pending change, reverts it when its time expires, and leases the lanes to test runs."""

    def __init__(self, machine: MachineContext) -> None:
        self._machine, self._store, self._clock = machine, machine.store, machine.clock

    @contextmanager
    def changing(self, *, anyhow: bool = False) -> Iterator[Intent]:
        """Hold the lock for a change, after reverting what expired. Raises RefusedError while the lanes are leased.

        `anyhow`: the change needs no intent of before, so a spoilt one is set aside.
        """
        with self._store.locked():
            if anyhow:
                self.refuse_leased()
                self._machine.regained()
            yield self.settled()

    def settled(self) -> Intent:
        """Under the lock: the intent, after reverting what expired. Raises RefusedError while the lanes are leased."""
        self.expire_locked()
        self.refuse_leased()
        return self._store.read()

    def unconfirmed(self) -> Pending | None:
        """The change that waits for confirmation at this moment, without the lock; None during a lease."""
        pending = self._store.pending()
        return None if pending is None or pending.leased else pending

    def take_back(self, waited: Pending | None) -> list[Step] | None:
        """Under the lock: revert the change that waits for confirmation, for a user; None when no change waits.

        `waited` is what was `unconfirmed` when the user asked: if it was reverted meanwhile, nothing is left to do.
        """
        self.refuse_leased()
        pending = self._store.pending()
        if pending and not self.is_overdue(pending):
            pending = self._store.read().pending  # a spoilt intent stays where it is until the revert is due
        if pending and not pending.leased:
            return self.revert(pending, UNCONFIRMED, self._machine.acting)
        return [] if waited and self._store.read().topology == waited.base else None

    def confirm(self) -> None:
        """Keep the pending change. Raises InputError without one, RefusedError when it is too late.

        What counts is when the user asked, not how long somebody else's work then held the lock.
        """
        asked_ns = self._clock.boottime_ns()
        with self._store.locked():
            now = self._store.read()
            if now.pending is None:
                raise InputError.single("no change waits for confirmation: see longhaul history")
            self.refuse_leased()
            if now.pending.boot_id != self._clock.boot_id() or asked_ns >= now.pending.deadline_ns:
                raise RefusedError(
                    "too late: Longhaul is reverting the change; see longhaul status, then run longhaul undo"
                )
            self._machine.save(replace(now, pending=None))

    def expire(self) -> bool:
        """Revert what nobody confirmed in time, or before a reboot; False when there is no such change."""
        with self._store.locked():
            return self.expire_locked()

    def expire_locked(self) -> bool:
        """`expire` for a caller who holds the lock."""
        pending = self._store.pending()
        if pending is None or not self.is_overdue(pending):
            return False
        steps = self.revert(pending, "not confirmed: reverted")
        if pending.leased:
            self._machine.note_repair(self._store.read(), steps, self._machine.by(REVERT))
        return True

    @contextmanager
    def lease(self, topology: Topology) -> Iterator[None]:
        """Bring this topology up for the time of the block, then return the lanes as they were; the history shows none
        of it.

        Nobody else changes anything meanwhile. If this process is killed, the reverter, the daemon or the next change
        returns the lanes. Raises RefusedError while a change waits for confirmation, and as `up` does.
        """
        with ExitStack() as until_returned:
            with self._taking(until_returned) as (old, pending):
                # What goes on of the schedule keeps its phase, although it is another schedule.
                began_ns = old.began_ns if topology.schedule else None
                Transaction(topology, "lease", pending, began_ns).run(self._machine)
                until_returned.callback(self._return, pending)
            yield

    @contextmanager
    def hold(self) -> Iterator[Topology]:
        """Keep everybody from changing the lanes for the time of the block, as `lease` does; yields what is up.

        The kernel keeps what it has, drift too, so that measurements show it. A schedule stands still, and then goes on
        in its phase. Raises InputError when nothing is up.
        """
        with ExitStack() as until_returned:
            with self._taking(until_returned) as (old, pending):
                if old.topology is None:
                    raise InputError.single("nothing is up: bring a topology up first", "request")
                now = self._machine.scheduled(old.topology, old.began_ns)
                still = replace(now, schedule=None, on_drift="report")
                if old.topology.schedule:
                    Transaction(still, "hold", pending).run(self._machine)
                    until_returned.callback(self._return, pending)
                else:
                    self._machine.guard(self._machine.folder)
                    held = replace(old, topology=still, pending=pending)
                    self._machine.enter(held, old, "hold", self._machine.acting)
                    until_returned.callback(self._release, pending)
            yield still

    @contextmanager
    def _taking(self, until_returned: ExitStack) -> Iterator[tuple[Intent, Pending]]:
        """Under the lock: take the lease; yields the intent, and what a lease of it is to return."""
        with self.changing() as old:
            if old.pending:
                raise RefusedError(WAITS)
            until_returned.enter_context(self._store.holding_lease())
            yield old, Pending(0, self._clock.boot_id(), old.topology, old.began_ns, leased=True)

    def _return(self, pending: Pending) -> None:
        """Return leased lanes as they were."""
        with self._store.locked():
            self.revert(pending, "returned")

    def _release(self, pending: Pending) -> None:
        """Give up held lanes: the kernel was left alone, so only the intent returns."""
        with self._store.locked():
            base = replace(self._machine.regained(), topology=pending.base, pending=None, began_ns=pending.began_ns)
            self._machine.save(base)

    def pending_ns(self) -> int | None:
        """The time left to confirm the pending change, in ns; None when no change is pending, and during a lease."""
        return self.left_ns(pending) if (pending := self._store.pending()) else None

    def left_ns(self, pending: Pending) -> int | None:
        """The time until it is reverted, 0 or less when that is due; None while its leaseholder lives."""
        if pending.leased:
            return 0 if self._store.leaseholder() is None else None
        return pending.left_ns(self._clock)

    def is_overdue(self, pending: Pending) -> bool:
        """Whether nobody confirmed it in time, or its leaseholder is gone."""
        return (left_ns := self.left_ns(pending)) is not None and left_ns <= 0

    def pending_status(self, pending: Pending | None) -> PendingStatus | None:
        """What is pending, for the status."""
        if pending is None:
            return None
        return PendingStatus(self.left_ns(pending), pending.base.name if pending.base else None)

    def refuse_leased(self) -> None:
        """Raises RefusedError while a living process leases the lanes."""
        try:
            pending = self._store.read().pending
            leased = pending is not None and pending.leased
        except UnreadableError:
            leased = True  # as far as the intent says: the process that holds the lease says more
        if leased and (pid := self._store.leaseholder()) is not None:
            raise leased_by(pid)

    def waiting(self, old: Intent, confirm_s: float | None) -> Pending | None:
        """What is pending after a change of the `old` intent that waits `confirm_s` seconds from now; None: no wait.

        A pending change keeps what it goes back to: a second change does not make the first one safe.
        """
        if confirm_s is None:
            return old.pending
        deadline_ns, boot_id = self._clock.boottime_ns() + round(confirm_s * 1e9), self._clock.boot_id()
        if old.pending:
            return replace(old.pending, deadline_ns=deadline_ns, boot_id=boot_id)
        return Pending(deadline_ns, boot_id, old.topology, old.began_ns)

    def restart(self, confirm_s: float | None) -> None:
        """Count the time to confirm from now on, under the lock: the change itself took some, and the user can confirm
        only what has been made.

        To write the deadline takes time, too, where the disk is slow. What a write took is added to the deadline of the
        next try, until the user has the whole time from the end of a write on.
        """
        if confirm_s is None:
            return
        now, took_ns = self._store.read(), 0
        for _ in range(MOST_TRIES):
            began_ns = self._clock.boottime_ns()
            pending = self.waiting(now, confirm_s + took_ns / 1e9)
            assert pending
            try:
                self._store.write(replace(now, pending=pending))
            except MissingError as error:
                self._machine.note(f"the time to confirm runs since before the change: {error}")
                return
            took_ns = max(took_ns, self._clock.boottime_ns() - began_ns)
            if pending.left_ns(self._clock) >= confirm_s * 1e9 - ON_TIME_NS:
                return
        self._machine.note(
            f"writing takes up to {format_duration(took_ns)} here: see longhaul status for the time left"
        )

    def revert(self, pending: Pending, summary: str, author: Author | None = None) -> list[Step]:
        """Under the lock: go back to what was up before the pending change. Without `author` nobody asked for it."""
        by = author or self._machine.by(REVERT)
        back = Transaction(pending.base, summary, None, began_ns=pending.began_ns, author=by, certain=True)
        return back.run(self._machine)
