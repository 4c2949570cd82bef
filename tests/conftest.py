"""Run the tests of contract/, lab/ and mininet/ where they belong: inside the lab.

On the host every test file is one boot, in which pytest runs that file's chosen tests; each inner report comes back
as a report of the outer session. So they are chosen, counted and shown as any other test. The tests of the host go
first; the labs boot meanwhile, and have what these leave of the CPUs. The tests in a browser wait more than they work:
where labs boot, they run in another process meanwhile. Inside the lab and in that process this file only reports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.jobs import REPORTS

HERE = Path(__file__).parent
IN_THE_LAB = [HERE / name for name in ("contract", "lab", "mininet")]
IN_LAB = "LONGHAUL_LAB" in os.environ
BROWSER = "test_browser"
"""What the files of tests in a browser are called, up to their subject."""
LONGEST = ("lab/test_presets.py", "lab/test_verdicts_path.py", "lab/test_verdicts_windows.py")
"""They boot first: what ends last should be short. The others follow in any order."""

if not IN_LAB:  # nothing there uses it, and each boot would import it
    import hypothesis

    from emulator.control import revert_start

    # On the host it would bring the lanes of a kernel in memory up on the machine itself, a minute after the test.
    revert_start.MODULE = "a_test_gives_its_appliance_a_guard"

    # CPUs are shared: a slow example is no mistake. On a forge the same commit draws the same examples each time; new
    # ones are drawn where somebody can look at them.
    hypothesis.settings.register_profile("longhaul", deadline=None, derandomize="CI" in os.environ)
    hypothesis.settings.load_profile("longhaul")


def is_for_the_lab(item: pytest.Item) -> bool:
    """Whether a test runs in the lab."""
    return item.path.parent in IN_THE_LAB


def is_in_a_browser(item: pytest.Item) -> bool:
    """Whether a test visits pages."""
    return item.path.name.startswith(BROWSER)


class Jobs:
    """The tests that run elsewhere, by `support/jobs.py`: a boot per test file of the lab, and all in a browser.

    Nothing happens before `begin`.
    """

    def __init__(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self._config = config
        self._ids: dict[str, list[str]] = {}
        has_labs = any(map(is_for_the_lab, items))
        for item in items:
            if is_for_the_lab(item) or (has_labs and is_in_a_browser(item)):
                self._ids.setdefault(_job(item), []).append(item.nodeid)
        self._names = sorted(self._ids, key=lambda name: (name not in LONGEST, name))
        self._process: subprocess.Popen[str] | None = None
        self._done: set[int] = set()
        self.stalled: dict[str, str] = {}
        self.took_s: dict[str, float] = {}

    def begin(self) -> None:
        """Start them, unless they are."""
        if self._process or not self._names:
            return
        root = self._config.rootpath
        self._folder = tempfile.TemporaryDirectory(dir=root, prefix=".lab-reports-")
        argv = [sys.executable, str(Path(__file__).with_name("support") / "jobs.py")]
        self._process = subprocess.Popen(argv, cwd=root, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin
        jobs = [{"ids": self._ids[name], "boots": name != BROWSER} for name in self._names]
        self._process.stdin.write(json.dumps({"folder": self._folder.name, "jobs": jobs}) + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """What runs still is ended."""
        if self._process:
            self._process.communicate()
            self._folder.cleanup()

    def has(self, item: pytest.Item) -> bool:
        """Whether a test is one of them."""
        return _job(item) in self._ids

    def reports(self, item: pytest.Item) -> tuple[list[pytest.TestReport], str]:
        """The inner reports of one test, and what its job printed."""
        number = self._names.index(_job(item))
        assert self._process and self._process.stdout
        while number not in self._done:
            self._done.add(int(self._process.stdout.readline()))
        result = json.loads((Path(self._folder.name) / f"{number}.json").read_text())
        self.took_s[_job(item)] = result["took_s"]
        if result["stalled"]:
            self.stalled[_job(item)] = result["stalled"]
        restore = self._config.hook.pytest_report_from_serializable
        mine = [data for data in result["reports"] if data["nodeid"] == item.nodeid]
        return [restore(config=self._config, data=data) for data in mine], result["printed"]


def _job(item: pytest.Item) -> str:
    """What the job of a test is called, if it has one."""
    return BROWSER if is_in_a_browser(item) else item.path.relative_to(HERE).as_posix()


class OnTheHost:
    """Replaces the run of a test that runs elsewhere by what its job reported."""

    jobs: Jobs | None = None
    """None in a process that collects no test, such as the one that deals them out to others (pytest-xdist)."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: (is_for_the_lab(item), is_in_a_browser(item)))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.jobs = Jobs(session.config, session.items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        assert self.jobs
        self.jobs.begin()
        if not self.jobs.has(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_sessionfinish(self) -> None:
        if self.jobs:
            self.jobs.end()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.jobs:
            return
        for name, why in self.jobs.stalled.items():
            terminalreporter.section(f"{name}: its lab stood still and was booted once more")
            terminalreporter.write_line(why)
        if terminalreporter.config.getoption("durations") is not None and self.jobs.took_s:
            terminalreporter.section("boots of the lab and the browser, in real time")
            for name, took_s in sorted(self.jobs.took_s.items(), key=lambda boot: -boot[1]):
                terminalreporter.write_line(f"{took_s:6.1f} s  {name}")

    def _reports(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        assert self.jobs
        try:
            reports, output = self.jobs.reports(item)
        except (OSError, ValueError) as error:  # it was killed, by hand or for want of memory
            reports, output = [], f"{type(error).__name__}: {error}"
        if any(report.when == "call" or report.outcome != "passed" for report in reports):
            yield from reports
            return
        failed = f"its job reported nothing for this test:\n{output[-4000:]}"
        yield pytest.TestReport(item.nodeid, item.location, {}, "failed", failed, "call")


class Elsewhere:
    """Writes every report to the file that the outer session reads."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config, self._path = config, path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._path.open("a") as file:
            file.write(json.dumps(data) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if path := os.environ.get(REPORTS):
        config.pluginmanager.register(Elsewhere(config, Path(path)), "longhaul-lab")
    elif not IN_LAB:
        config.pluginmanager.register(OnTheHost(), "longhaul-lab")
