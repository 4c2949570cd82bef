"""Starts a user's program in its own root file system, where a lab was given one (`--root DIR`)."""

from __future__ import annotations

import os
from collections.abc import Sequence

LAB_PROGRAMS = "LONGHAUL_LAB_PROGRAMS"
"""Holds, in the lab of a cell, the folder that is the root of the programs; not set where they are in the lab's."""

_ENTER = 'exec unshare --root="$0" --wd="$PWD" -- "$@"'


def inside(argv: Sequence[str]) -> list[str]:
    """The command in the programs' root, in the folder in which it is started; unchanged where there is no other."""
    folder = os.environ.get(LAB_PROGRAMS)
    return ["sh", "-c", _ENTER, folder, *argv] if folder else list(argv)
