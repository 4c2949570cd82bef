"""Run the tests of lab/ and mininet/ where they belong: inside the lab.

On the host every test file is one boot, in which pytest runs that file's chosen tests; each inner report comes back
as a report of the outer session. So they are chosen, counted and shown as any other test. As many boots run at once
as there are CPUs. Inside the lab this file does nothing.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import hypothesis
import pytest
from hypothesis import settings

# CPUs are shared: a slow example is no mistake.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

IN_THE_LAB = [Path(__file__).parent / name for name in ("lab", "mininet")]
IN_LAB = "LONGHAUL_LAB" in os.environ
REPORTS = "LONGHAUL_TEST_REPORTS"
TIMEOUT_S = 900.0


# CPUs are shared: a slow example is no mistake.
hypothesis.settings.register_profile("longhaul", deadline=None)
hypothesis.settings.load_profile("longhaul")


def is_for_the_lab(item: pytest.Item) -> bool:
    """Whether a test runs in the lab."""
    return item.path.parent in IN_THE_LAB


class Boots:
    """One boot per test file, started together when the first of its tests is due."""

    def __init__(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self._config = config
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
        self._files: dict[Path, list[str]] = {}
        for item in items:
            if is_for_the_lab(item):
                self._files.setdefault(item.path, []).append(item.nodeid)
        self._boots: dict[Path, Future[tuple[list[pytest.TestReport], str]]] = {}

    def reports(self, item: pytest.Item) -> tuple[list[pytest.TestReport], str]:
        """The inner reports of one test, and what its boot printed."""
        if not self._boots:
            from emulator.lab import image, kernel

            kernel.build(lambda *_: None), image.build(lambda *_: None)
            self._boots = {path: self._pool.submit(self._boot, ids) for path, ids in self._files.items()}
        reports, output = self._boots[item.path].result()
        return [r for r in reports if r.nodeid == item.nodeid], output

    def _boot(self, node_ids: list[str]) -> tuple[list[pytest.TestReport], str]:
        from emulator.lab import boot

        root = self._config.rootpath
        with tempfile.NamedTemporaryFile(dir=root, prefix=".lab-reports-") as file:
            argv = ["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", *node_ids]
            env = {REPORTS: file.name, "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis"}
            done = boot.capture(argv, cwd=root, env=env, timeout_s=TIMEOUT_S)
            lines = [json.loads(line) for line in Path(file.name).read_text().splitlines()]
        restore = self._config.hook.pytest_report_from_serializable
        output = (done.stdout + done.stderr).decode(errors="replace")
        return [restore(config=self._config, data=line) for line in lines], output


class OnTheHost:
    """Replaces the run of a test for the lab by what its boot reported."""

    boots: Boots

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.boots = Boots(session.config, session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if not is_for_the_lab(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _reports(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        try:
            reports, output = self.boots.reports(item)
        except Exception as error:
            reports, output = [], f"{type(error).__name__}: {error}"
        if any(report.when == "call" or report.outcome != "passed" for report in reports):
            yield from reports
            return
        failed = f"the lab reported nothing for this test:\n{output[-4000:]}"
        yield pytest.TestReport(item.nodeid, item.location, {}, "failed", failed, "call")


class InTheLab:
    """Writes every report to the file that the host reads."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config, self._path = config, path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._path.open("a") as file:
            file.write(json.dumps(data) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if not IN_LAB:
        config.pluginmanager.register(OnTheHost(), "longhaul-lab")
    elif path := os.environ.get(REPORTS):
        config.pluginmanager.register(InTheLab(config, Path(path)), "longhaul-lab")
