"""Starts the process that reverts what nobody confirms in time (`revert_process`), which outlives its starter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from emulator.errors import MissingError

MODULE = "emulator.control.revert_process"
"""Started by its name: that process needs the whole appliance, and the appliance starts it."""


def start(folder: Path) -> None:
    """Leave a reverter running for this state folder. Raises MissingError when it cannot be started."""
    package = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    argv = [sys.executable, "-m", MODULE, str(folder.resolve())]
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    pid = os.posix_spawn(sys.executable, argv, {**os.environ, "PYTHONPATH": path}, file_actions=nowhere, setsid=True)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise MissingError(
            f"{' '.join(argv)} ended with {code}: nothing would take the change back; nothing was changed"
        )
