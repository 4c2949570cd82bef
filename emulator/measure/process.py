"""Running programs: the only user of subprocess outside the lab.

A program is a list of arguments, never a shell line, and speaks English (LC_ALL=C). With a namespace it is
started from a thread that is inside it, so a site's command costs one fork and one exec.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from emulator.errors import MeasureError, MissingError
from emulator.kernel import netns


@dataclass(frozen=True)
class Completed:
    """A program that has ended."""

    argv: tuple[str, ...]
    stdout: str
    stderr: str
    exit_code: int

    def checked(self) -> Completed:
        """Itself when the program succeeded. Raises MeasureError with the program's own last words."""
        if self.exit_code:
            words = (self.stderr.strip() or self.stdout.strip() or "it said nothing").splitlines()[-1]
            raise MeasureError(f"{' '.join(self.argv)} ended with {self.exit_code}: {words}")
        return self


class Running:
    """A program at work. Use it as a context manager: leaving the block ends the program if it still runs."""

    def __init__(self, argv: Sequence[str], namespace: str | None = None) -> None:
        self.argv = tuple(argv)
        inside = netns.inside(namespace) if namespace else contextlib.nullcontext()
        try:
            with inside:
                self._popen = subprocess.Popen(
                    self.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,
                )
        except FileNotFoundError as gone:
            raise MissingError(f"{argv[0]} is not installed: run scripts/install") from gone

    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._popen.poll() is None

    def wait(self, timeout_s: float) -> Completed:
        """Its output once it has ended. After `timeout_s` it is killed and MeasureError raised."""
        try:
            out, err = self._popen.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as late:
            self.terminate()
            raise MeasureError(f"{' '.join(self.argv)} did not end within {timeout_s:g} s") from late
        return Completed(self.argv, out.decode(errors="replace"), err.decode(errors="replace"), self._popen.returncode)

    def terminate(self) -> None:
        """End it and whatever it started, now."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.communicate()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self._popen.returncode is None:
            self.terminate()


def start(argv: Sequence[str], namespace: str | None = None) -> Running:
    """Start a program, in a namespace if one is named. Raises MissingError when it is not installed."""
    return Running(argv, namespace)


def run(argv: Sequence[str], timeout_s: float, namespace: str | None = None) -> Completed:
    """Run a program to its end. Raises MissingError when not installed, MeasureError after `timeout_s`."""
    with start(argv, namespace) as program:
        return program.wait(timeout_s)
