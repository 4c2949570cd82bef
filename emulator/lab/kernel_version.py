"""The version of a kernel's source, as its top Makefile says it; and what depends on the version. Pure."""

from __future__ import annotations

import re

from msgspec import Struct

PTRACE, SECCOMP = "ptrace", "seccomp"
"""How User-mode Linux stops a process at its system calls. The bytes of a run differ between the two."""
SECCOMP_SINCE = (6, 16)

_LINES = {"VERSION": r"\d+", "PATCHLEVEL": r"\d+", "SUBLEVEL": r"\d*", "EXTRAVERSION": r"\S*"}


class KernelVersion(Struct, frozen=True, order=True):
    """Linux 6.12.117 is (6, 12, 117); `extra` is what follows, such as -rc3."""

    major: int
    minor: int
    patch: int = 0
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{self.extra}"

    @property
    def pair(self) -> tuple[int, int]:
        """What the ranges of patches are about."""
        return self.major, self.minor

    @property
    def mode(self) -> str:
        """How a kernel of this version stops its processes: by seccomp where it can, which takes less time."""
        return SECCOMP if self.pair >= SECCOMP_SINCE else PTRACE


def of_makefile(text: str) -> KernelVersion:
    """The version in the text of a kernel's top Makefile. Raises ValueError for another file."""
    found = {name: re.search(rf"(?m)^{name} *=[ \t]*({value})[ \t]*$", text) for name, value in _LINES.items()}
    if lacking := [name for name, match in found.items() if not match]:
        raise ValueError(f"its Makefile does not set {', '.join(lacking)}")
    major, minor, patch, extra = (match[1] for match in found.values() if match)
    return KernelVersion(int(major), int(minor), int(patch or 0), extra)
