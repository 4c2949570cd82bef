"""The turn of a test run over the lanes: from its first cell to its last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from emulator.control.confirmations import leased_by
from emulator.errors import RefusedError


class RunTurn:
    """Each cell of a run leases the lanes. Between two cells nobody else takes them, nor lets a change wait for
    confirmation: the next cells would fail.

    `lock` is held by whoever changes the lanes; `leaseholder` and `pending_ns` are those of `UseCases`.
    """

    def __init__(
        self,
        lock: AbstractContextManager[object],
        leaseholder: Callable[[], int | None],
        pending_ns: Callable[[], int | None],
    ) -> None:
        self._lock, self._leaseholder, self._pending_ns = lock, leaseholder, pending_ns
        self._run = ""

    def begin(self, run: str) -> None:
        """Begin the turn of this run. Raises RefusedError while a measurement leases the lanes or a change waits."""
        with self._lock:
            self.refuse_leased()
            if self._pending_ns() is not None:
                raise RefusedError("a change waits for confirmation: confirm or undo it first")
            self._run = run

    def end(self, run: str) -> None:
        """End the turn of this run, if it has one."""
        with self._lock:
            if self._run == run:
                self._run = ""

    def refuse_leased(self) -> None:
        """Raises RefusedError while a measurement leases the lanes."""
        if (pid := self._leaseholder()) is not None:
            raise leased_by(pid)

    def refuse_beside(self) -> None:
        """Raises RefusedError during a run's turn."""
        if self._run:
            raise RefusedError(f"run {self._run} measures over the lanes: wait for its end, or cancel it")
