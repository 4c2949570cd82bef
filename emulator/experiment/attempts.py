"""What a cell tries again, and what it tells when a tool fails: what happened, how busy the machine was, what to do.

Only what changes nothing is tried again: echoes and probes before the streams. Every failure becomes a caveat of the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from emulator.analysis.transfer import Caveat
from emulator.errors import MeasureError
from emulator.system import lateness
from emulator.system.lateness import MachineLateness

MOST = 3
NOTES = TRIED_AGAIN, NO_IRTT, NO_LOADED_RTT, NO_SOCKET_FIGURES = (
    "tried-again", "no-irtt", "no-loaded-rtt", "no-socket-figures",
)  # fmt: skip
"""What a cell may note of its own measuring; none voids it."""

T = TypeVar("T")


class Attempts:
    """What was tried again in one cell. `late` tells how late this machine is now."""

    def __init__(self, late: Callable[[], MachineLateness] = lateness.now) -> None:
        self._late = late
        self.caveats: list[Caveat] = []

    def __call__(self, what: str, act: Callable[[float], T]) -> T:
        """What the act returns, tried up to three times; its argument is by how much its own time limits must be longer
        than on an idle machine.

        Raises MeasureError when every attempt fails; `what` names the act.
        """
        seen: list[str] = []
        for number in range(1, MOST + 1):
            late = self._late()
            patience = number * (late.factor if late.busy else 1)
            try:
                found = act(patience)
            except MeasureError as error:
                seen.append(str(error))
                continue
            if seen:
                self.note(TRIED_AGAIN, f"{what} needed {number} attempts: {_joined(seen)}")
            return found
        raise MeasureError(f"{what} failed {MOST} times: {_joined(seen)}")

    def note(self, check: str, text: str) -> None:
        """Add a caveat that does not void the cell, with the machine's lateness where that may be the cause."""
        late = self._late()
        self.caveats.append(Caveat(check, f"{text} ({late})" if late.busy else text, fatal=False))

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Tell with a tool's failure in the block how busy the machine is, and what to do. Raises MeasureError."""
        try:
            yield
        except MeasureError as error:
            raise MeasureError(f"{error}; {advice(self._late())}") from error


def noted(findings: Iterable[str]) -> list[str]:
    """The sentences of a cell's findings that `Attempts.note` added."""
    parts = (finding.partition(": ") for finding in findings)
    return [sentence for check, _, sentence in parts if check in NOTES]


def advice(late: MachineLateness) -> str:
    """What to do after a tool failed on a machine that is so late."""
    if late.busy:
        return (
            f"this machine is busy ({late}): let other programs end and measure again (a sweep goes on with --resume), "
            "or measure in the lab, where time is virtual"
        )
    return "check the lane with longhaul status and longhaul verify, then measure again (a sweep goes on with --resume)"


def _joined(seen: list[str]) -> str:
    """What was seen, each once."""
    return "; then ".join(dict.fromkeys(seen))
