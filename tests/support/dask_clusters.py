"""Dask clusters on loopback: a scheduler and workers, each a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.waiting import PATIENCE_S

DASK = str(Path(sys.executable).with_name("dask"))


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """The address of a scheduler with so many workers, of one thread each; all of it ends with the block."""
    file, log = folder / "scheduler.json", folder / "dask.log"
    known = ["--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1"]
    with ExitStack() as stack:
        out = stack.enter_context(log.open("a"))

        def start(*args: str) -> None:
            process = stack.enter_context(subprocess.Popen([DASK, *args, *known], cwd=folder, stdout=out, stderr=out))
            stack.callback(process.terminate)

        start("scheduler", "--port", "0")
        _await(log, lambda said: file.exists() and file.read_text().endswith("}"))  # a worker may not read half of it
        for number in range(workers):
            start("worker", "--name", str(number), "--nthreads", "1", "--no-nanny")
        _await(log, lambda said: said.count("Registered to") == workers)
        yield json.loads(file.read_text())["address"]


def _await(log: Path, done: Callable[[str], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not done(log.read_text()):
        assert time.monotonic() < deadline_s, log.read_text()
        time.sleep(0.1)
