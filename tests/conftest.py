"""Run the tests of contract/, lab/ and mininet/ where they belong: inside the lab.

On the host every test file is one boot, in which pytest runs that file's chosen tests; each inner report comes back
as a report of the outer session. So they are chosen, counted and shown as any other test. The tests of the host go
first; the labs boot meanwhile, and have what these leave of the CPUs. Inside the lab this file does nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from support.lab_boots import REPORTS

IN_THE_LAB = [Path(__file__).parent / name for name in ("contract", "lab", "mininet")]
IN_LAB = "LONGHAUL_LAB" in os.environ
LONGEST = ("test_presets.py", "test_verdicts_path.py", "test_verdicts_windows.py")
"""They boot first: what ends last should be short. The others follow in any order."""

# CPUs are shared: a slow example is no mistake.
hypothesis.settings.register_profile("longhaul", deadline=None)
hypothesis.settings.load_profile("longhaul")


def is_for_the_lab(item: pytest.Item) -> bool:
    """Whether a test runs in the lab."""
    return item.path.parent in IN_THE_LAB


class Boots:
    """One boot per test file, the longest first, by `support/lab_boots.py`. Nothing happens before `begin`."""

    def __init__(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self._config, self._files = config, sorted({item.path for item in items if is_for_the_lab(item)}, key=_last)
        self._ids = [[item.nodeid for item in items if item.path == path] for path in self._files]
        self._process: subprocess.Popen[str] | None = None
        self._done: set[int] = set()
        self.stalled: dict[str, str] = {}
        self.took_s: dict[str, float] = {}

    def begin(self) -> None:
        """Start them, unless they are."""
        if self._process or not self._files:
            return
        root = self._config.rootpath
        self._folder = tempfile.TemporaryDirectory(dir=root, prefix=".lab-reports-")
        argv = [sys.executable, str(Path(__file__).with_name("support") / "lab_boots.py")]
        self._process = subprocess.Popen(argv, cwd=root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"folder": self._folder.name, "files": self._ids}) + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """What runs still is ended."""
        if self._process:
            self._process.communicate()
            self._folder.cleanup()

    def reports(self, item: pytest.Item) -> tuple[list[pytest.TestReport], str]:
        """The inner reports of one test, and what its boot printed."""
        number = self._files.index(item.path)
        assert self._process and self._process.stdout
        while number not in self._done:
            self._done.add(int(self._process.stdout.readline()))
        result = json.loads((Path(self._folder.name) / f"{number}.json").read_text())
        self.took_s[item.path.name] = result["took_s"]
        if result["stalled"]:
            self.stalled[item.path.name] = result["stalled"]
        restore = self._config.hook.pytest_report_from_serializable
        mine = [data for data in result["reports"] if data["nodeid"] == item.nodeid]
        return [restore(config=self._config, data=data) for data in mine], result["printed"]


def _last(path: Path) -> tuple[bool, Path]:
    """What files are sorted by."""
    return path.name not in LONGEST, path


class OnTheHost:
    """Replaces the run of a test for the lab by what its boot reported."""

    boots: Boots | None = None
    """None in a process that collects no test, such as the one that deals them out to others (pytest-xdist)."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=is_for_the_lab)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.boots = Boots(session.config, session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        assert self.boots
        self.boots.begin()
        if not is_for_the_lab(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_sessionfinish(self) -> None:
        if self.boots:
            self.boots.end()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.boots:
            return
        for name, why in self.boots.stalled.items():
            terminalreporter.section(f"{name}: its lab stood still and was booted once more")
            terminalreporter.write_line(why)
        if terminalreporter.config.getoption("durations") is not None and self.boots.took_s:
            terminalreporter.section("boots of the lab, in real time")
            for name, took_s in sorted(self.boots.took_s.items(), key=lambda boot: -boot[1]):
                terminalreporter.write_line(f"{took_s:6.1f} s  {name}")

    def _reports(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        assert self.boots
        try:
            reports, output = self.boots.reports(item)
        except (OSError, ValueError) as error:  # it was killed, by hand or for want of memory
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
