"""Starts the process that reverts an unconfirmed change (`revert_process`); that process outlives its starter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from emulator.errors import MissingError

MODULE = "emulator.control.revert_process"
"""The starter knows the module by name: that process may import the appliance, which imports this starter."""


def start(folder: Path) -> None:
    """Start the process for this state folder. Raises MissingError when it does not start."""
    package = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    argv = [sys.executable, "-m", MODULE, str(folder.resolve())]
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    pid = os.posix_spawn(sys.executable, argv, {**os.environ, "PYTHONPATH": path}, file_actions=nowhere, setsid=True)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise MissingError(
            f"{' '.join(argv)} ended with {code}: no process would revert the change, so Longhaul changed nothing"
        )
