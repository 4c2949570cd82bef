"""Names of Debian packages on top of the lab's image. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_PACKAGES = 200
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{1,99}")


def parse(text: str) -> tuple[str, ...]:
    """Names separated by commas; sorted, each once. Raises ValueError."""
    return checked(name.strip() for name in text.split(","))


def checked(names: Iterable[str]) -> tuple[str, ...]:
    """The names, sorted, each once. Raises ValueError for one that no package has, and for too many."""
    found = sorted(set(names))
    if wrong := [name for name in found if not _NAME.fullmatch(name)]:
        raise ValueError(f"{wrong[0]!r} is no name of a Debian package: write rsync,nginx")
    if len(found) > MOST_PACKAGES:
        raise ValueError(f"{len(found)} packages are more than {MOST_PACKAGES}: name those that bring the others")
    return tuple(found)
