"""Every way in which Longhaul fails, as one tree.

    LonghaulError                 exit 1   HTTP 500   the root; never raised itself
    ├── InputError                exit 2   HTTP 422   the user's input is wrong; carries every mistake at once
    ├── RefusedError              exit 3   HTTP 409   a part of the machine that Longhaul must not touch is in the way
    ├── MissingError              exit 4   HTTP 503   this machine lacks something (package, right, module)
    │   └── LabError              exit 4   HTTP 503   the lab cannot be built or booted
    │       ├── LabTimeout        exit 124 HTTP 504   the command ran longer than its --timeout
    │       └── LabStalled        exit 125 HTTP 504   live-lock: the CPU is busy, the virtual clock stands still
    ├── KernelError               exit 5   HTTP 500   the kernel refused one operation; Longhaul rolled the rest back
    ├── VerifyError               exit 6   HTTP 500   the kernel accepted everything, yet its state differs
    ├── MeasureError              exit 7   HTTP 500   a tool (ping, iperf3, ss) failed or printed nonsense
    │   └── LateError             exit 7   HTTP 500   a tool did not end in time, and Longhaul ended it
    └── RemoteError               exit 9   HTTP 502   a remote daemon failed for a reason of its own

A command that ran, but whose check failed (drift, certificate or invalid cell), exits 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

EXIT_NOT_AS_ASKED = 8
LONGEST_TEXT = 2000
"""Of each part of a mistake, in characters; what is longer is shortened in the middle."""


class LonghaulError(Exception):
    """The root. `str(error)` tells people what happened, where, and what to do next."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500


@dataclass(frozen=True)
class Mistake:
    """One thing wrong in the user's input.

    `where` is "file:line" or the name of an option, `path` is the field ("lanes.japan.rtt", may be empty), `text` says
    what is wrong and what to write instead.
    """

    where: str
    path: str
    text: str

    def __post_init__(self) -> None:
        # What a user wrote is quoted, and may be a whole file in one line.
        for name in ("where", "path", "text"):
            if len(said := getattr(self, name)) > LONGEST_TEXT:
                half = LONGEST_TEXT // 2
                object.__setattr__(self, name, f"{said[:half]} ... {said[-half:]}")

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.text) if part)


class InputError(LonghaulError):
    """The user's input is wrong. The error lists every mistake; nothing was changed."""

    exit_code = 2
    http_status = 422

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(str(m) for m in self.mistakes))

    @classmethod
    def single(cls, text: str, where: str = "", path: str = "") -> Self:
        """An error with a single mistake."""
        return cls([Mistake(where, path, text)])


def no_such(kind: str, name: str, known: Sequence[str]) -> str:
    """What is wrong with a name that means nothing here, and the names to use instead."""
    if not known:
        return f"there is no {kind} {name!r}, nor any other"
    *others, last = known
    return f"there is no {kind} {name!r}: use {', '.join(others)}{' or ' * bool(others)}{last}"


class RefusedError(LonghaulError):
    """A wanted port, bridge or namespace belongs to somebody else. Nothing was changed."""

    exit_code = 3
    http_status = 409


class MissingError(LonghaulError):
    """This machine lacks something: a package, a right, a kernel module."""

    exit_code = 4
    http_status = 503


class LabError(MissingError):
    """The lab cannot be built or booted here."""


class LabTimeout(LabError):
    """The command in the lab ran longer than its time limit."""

    exit_code = 124
    http_status = 504


class LabStalled(LabError):
    """Live-lock: the CPU is busy while the virtual clock stands still."""

    exit_code = 125
    http_status = 504


class KernelError(LonghaulError):
    """The kernel refused an operation. `errno` is its number, `operation` the op as an ip/tc command."""

    exit_code = 5

    def __init__(self, operation: object, errno: int, reason: str) -> None:
        super().__init__(f"{operation}: {reason} (errno {errno})")
        self.operation, self.errno = operation, errno


class VerifyError(LonghaulError):
    """The kernel accepted every operation, yet its state differs from the requested one."""

    exit_code = 6


class MeasureError(LonghaulError):
    """A measuring tool failed, or printed something that Longhaul cannot parse."""

    exit_code = 7


class LateError(MeasureError):
    """A program did not end in time, and was ended."""


class RemoteError(LonghaulError):
    """A remote daemon failed, or its answer is not one of our problem documents."""

    exit_code = 9
    http_status = 502
