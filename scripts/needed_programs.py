"""The programs that a script calls and a machine may lack, with the Debian package of each."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def check(who: str, needed: Mapping[str, str], has: Callable[[str], object] = shutil.which) -> None:
    """End the program where something is missing, with the command that installs it.

    `who` begins the message, such as "the box needs"; `needed` has the package of each program, or of each file, whose
    name is a path.
    """
    missing = [name for name in needed if not (Path(name).exists() if name.startswith("/") else has(name))]
    if missing:
        packages = " ".join(dict.fromkeys(needed[name] for name in missing))
        sys.exit(f"{who} {', '.join(missing)}: apt-get install -y {packages}")
