"""Runs tests beside those of the host: a boot of the lab for each file, and one process for those in a browser.

It is a process of its own, since the tests of the host may change all of theirs.

The first line of stdin says what: JSON of `folder` (for the results, seen from inside the lab too), and `jobs`, each
the ids of its tests, and whether they need a lab. The end of stdin ends everything. The number of each job that is done
goes to stdout, its result to FOLDER/NUMBER.json. The labs have every CPU, but only while nothing else wants it: in
virtual time nobody is late.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

REPORTS = "LONGHAUL_TEST_REPORTS"
TIMEOUT_S = 3600.0
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
LEAST = 19
"""The niceness of tests that need no lab. Only the labs go after them."""
SEEDS = (1, 2, 3)
"""Of the boots that a file's tests may take: most take one."""


def run(ids: list[str], reports: Path, cpu: int) -> dict[str, object]:
    """Boot on this CPU, run these tests; their reports, and what was printed.

    Should its clock stand still, the tests that have not ended run in another boot, with another seed, and `stalled`
    says so: what live-locks by itself will do so again.
    """
    from emulator.errors import LabStalled

    ended: list[dict[str, Any]] = []
    stalled = printed = ""
    for seed in SEEDS:
        reports.write_text("")
        try:
            printed = _boot(ids, reports, cpu, seed)
        except LabStalled as stall:
            stalled, printed = stalled or str(stall), f"stood still with every seed: {stall}"
            done = {report["nodeid"] for report in _read(reports) if report["when"] == "teardown"}
            ended += [report for report in _read(reports) if report["nodeid"] in done]
            if not (ids := [one for one in ids if one not in done]):
                break
        else:
            ended += _read(reports)
            break
    return {"reports": ended, "printed": printed, "stalled": stalled}


def _boot(ids: list[str], reports: Path, cpu: int, seed: int) -> str:
    """What it printed. Raises LabStalled."""
    from emulator.errors import LabStalled
    from emulator.lab import boot
    from emulator.lab.boot_options import BootOptions
    from emulator.lab.lab_root import RootChoice

    argv = ["python3", *PYTEST, *ids]
    choice = RootChoice(packages=packages(Path(ids[0].partition("::")[0])))
    env = {
        REPORTS: str(reports),
        # Each boot would import the plugins that the image happens to have, and rewrite the assertions of some.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        # The first boot keeps what it compiled of the tests for the others.
        "PYTHONDONTWRITEBYTECODE": "",
    }
    try:
        done = boot.capture(argv, BootOptions(Path.cwd(), env, timeout_s=TIMEOUT_S, cpu=cpu, seed=seed), choice)
    except LabStalled:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return (done.stdout + done.stderr).decode(errors="replace")


def run_here(ids: list[str], reports: Path) -> dict[str, object]:
    """Run these tests without a lab, in a process of their own; the result is that of `run`."""
    reports.write_text("")
    argv, env = [sys.executable, *PYTEST, *ids], {**os.environ, REPORTS: str(reports)}
    done = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return {"reports": _read(reports), "printed": done.stdout.decode(errors="replace"), "stalled": ""}


def packages(file: Path) -> tuple[str, ...]:
    """The Debian packages that a file of tests asks for in `LAB_PACKAGES`, on top of the image."""
    lines = file.read_text().splitlines() if file.is_file() else []
    asked = [line.partition("=")[2] for line in lines if line.startswith("LAB_PACKAGES = ")]
    return tuple(ast.literal_eval(asked[0].strip())) if asked else ()


def _read(reports: Path) -> list[dict[str, Any]]:
    lines = reports.read_text().splitlines(keepends=True)
    # The last is cut off where the lab was ended in the middle of it.
    return [json.loads(line) for line in lines if line.endswith("\n")]


def main() -> None:
    os.setpgid(0, 0)
    asked = json.loads(sys.stdin.readline())
    folder = Path(asked["folder"])
    # From the last one down: the labs that tests of the host boot take the first that is free.
    cpus = sorted(os.sched_getaffinity(0))

    def done(number: int, work: Callable[[Path], dict[str, object]]) -> None:
        began = time.monotonic()
        result = work(folder / f"{number}.reports") | {"took_s": time.monotonic() - began}
        (folder / f"{number}.json").write_text(json.dumps(result))
        os.write(1, b"%d\n" % number)

    def boots(number: int, ids: list[str]) -> None:
        cpu = cpus.pop()
        done(number, lambda reports: run(ids, reports, cpu))
        cpus.append(cpu)

    def here(number: int, ids: list[str]) -> None:
        os.nice(LEAST)
        done(number, lambda reports: run_here(ids, reports))

    jobs = list(enumerate(asked["jobs"]))
    for number, job in jobs:
        if not job["boots"]:
            threading.Thread(target=here, args=(number, job["ids"]), daemon=True).start()
    # It holds for this thread and those that it begins from here on, which are the labs'.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    pool = ThreadPoolExecutor(len(cpus))
    for number, job in jobs:
        if job["boots"]:
            pool.submit(boots, number, job["ids"])
    sys.stdin.readline()
    os.killpg(0, signal.SIGTERM)  # the labs that run die with their launcher, and what runs here with it


if __name__ == "__main__":
    main()
