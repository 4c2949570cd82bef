"""Shows on stderr the present step of a build, its elapsed time and its usual duration."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import Task, TaskID

    from emulator.lab.build_cache import Progress

LINE_EVERY_S = 30.0
"""If stderr is not a terminal, a long step prints a line at this interval."""


@contextmanager
def build_progress() -> Iterator[Progress]:
    """Yield a callback for `lab.build`: live lines on a terminal, else a line when a step begins and ends.

    It imports and prints nothing before the first step, so a lab that is already built costs no time.
    """
    shown: list[_ProgressLine | _Lines] = []
    lock = threading.Lock()

    def progress(step: str, done: int, total: int) -> None:
        with lock:
            if not shown:
                shown.append(_display())
            shown[0].show(step, done, total)

    try:
        yield progress
    finally:
        for display in shown:
            display.end()


def _display() -> _ProgressLine | _Lines:
    return _ProgressLine() if sys.stderr.isatty() else _Lines(time.monotonic)


def clock(seconds: float) -> str:
    """Minutes and seconds: 2:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def expected_s(step: str, elapsed_s: float, done: int, total: int) -> float:
    """The duration of the whole step: the usual one, or an estimate from its progress once a tenth is done."""
    from emulator.lab.build import EXPECTED_S

    return elapsed_s * total / done if total > 1 and done * 10 > total else EXPECTED_S[step]


class _Lines:
    """Prints a line when a step begins, when it ends, and at intervals between."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._begun = now, now()
        self._steps: dict[str, tuple[float, float]] = {}

    def show(self, step: str, done: int, total: int) -> None:
        now = self._now()
        begun, last = self._steps.get(step, (now, now))
        expected = clock(expected_s(step, now - begun, done, total))
        if step not in self._steps:
            self._print(now, f"{step} (takes about {expected})")
        elif done >= total > 0:
            self._print(now, f"{step}: done in {clock(now - begun)}")
        elif now - last >= LINE_EVERY_S:
            self._print(now, f"{step}: {100 * done // total} %, {clock(now - begun)} of about {expected}")
        else:
            now = last
        self._steps[step] = begun, now

    def _print(self, now: float, text: str) -> None:
        click.echo(f"[{clock(now - self._begun)}] {text}", err=True)

    def end(self) -> None:
        """Does nothing: there is nothing to close."""


class _ProgressLine:
    """Shows a line for each step with a bar, the elapsed time and the expected one, refreshed ten times a second."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
        from rich.text import Text

        class Times(ProgressColumn):
            def render(self, task: Task) -> Text:
                elapsed = task.finished_time or task.elapsed or 0.0
                expected = expected_s(task.description, elapsed, int(task.completed), int(task.total or 0))
                return Text(f"{clock(elapsed)} of about {clock(max(expected, elapsed))}")

        columns = (TextColumn("{task.description}"), BarColumn(), Times())
        self._bar: Bar = Progress(*columns, console=Console(stderr=True))
        self._tasks: dict[str, TaskID] = {}
        self._bar.start()

    def show(self, step: str, done: int, total: int) -> None:
        if step not in self._tasks:
            self._tasks[step] = self._bar.add_task(step, total=total)
        self._bar.update(self._tasks[step], completed=done, total=total)

    def end(self) -> None:
        self._bar.stop()
