"""A recording that another thread stops: what runs is interrupted, and nothing starts any more."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from support.folders import CAPTURES
from support.made_recordings import Ended, HeldPing, MadeUpPaths
from support.waiting import PATIENCE_S

from emulator.hosts.tools.process import Completed
from emulator.record.recorder import Here, Notebook, RecordingStopped, Stoppable, Task, by_irtt, by_ping

MS = 10**6
CAPTURE = (CAPTURES / "irtt-30-50ms.json").read_text()


def test_ping_ends_with_its_summary_and_what_was_answered_stays(tmp_path: Path) -> None:
    host = MadeUpPaths()
    stoppable, ended = Stoppable(host), threading.Event()
    with Notebook(tmp_path, lambda _: None) as notebook:

        def work() -> None:
            by_ping(Task(stoppable, "paris", 20 * MS, 3600 * 10**9), notebook)
            ended.set()

        thread = threading.Thread(target=work)
        thread.start()
        ping = host.ping()
        for _ in range(11):
            ping.answer()
        stoppable.stop()
        thread.join()
    assert ended.is_set()
    assert [probe.number for probe in notebook.probes] == list(range(10))
    with pytest.raises(RecordingStopped):
        stoppable.start(["ping"])


class Series:
    """irtt's series: the first is over, and somebody stops the second."""

    def __init__(self, out: str, exit_code: int) -> None:
        self._second = out, exit_code
        self.stoppable = Stoppable(self)  # type: ignore[arg-type]
        self.begun = 0

    def start(self, argv: list[str]) -> Ended:
        """One more series."""
        self.begun += 1
        return Interrupted(self, *self._second) if self.begun == 2 else Ended(CAPTURE)

    def run(self, argv: list[str], timeout_s: float) -> Completed:
        """Nothing else runs."""
        raise AssertionError


class Interrupted(Ended):
    """The series that is stopped: it prints what it has."""

    def __init__(self, series: Series, out: str, exit_code: int) -> None:
        super().__init__(out, exit_code)
        self._series = series

    def wait(self, timeout_s: float) -> Completed:
        """Somebody stops it meanwhile."""
        self._series.stoppable.stop()
        assert self.interrupted
        return super().wait(timeout_s)


@pytest.mark.parametrize(
    ("out", "code", "runs"), [("", 0, {0}), ("", -2, {0}), (CAPTURE, 0, {0, 1})], ids=["here", "over SSH", "just ended"]
)
def test_irtt_begins_no_other_series_and_one_without_a_result_is_no_outage(
    tmp_path: Path, out: str, code: int, runs: set[int]
) -> None:
    """An interrupted irtt prints nothing; over SSH the interruption takes the connection, too."""
    series = Series(out, code)
    with Notebook(tmp_path, lambda _: None) as notebook, pytest.raises(RecordingStopped):
        by_irtt(Task(series.stoppable, "paris", 20 * MS, 3600 * 10**9), notebook)
    assert series.begun == 2
    assert {probe.run for probe in notebook.probes} == runs


def test_a_program_that_has_ended_already_can_be_stopped() -> None:
    stoppable = Stoppable(Here())
    with stoppable.start(["true"]) as program:
        program.wait(10)
        stoppable.stop()
        stoppable.stop()


def test_a_real_program_is_interrupted() -> None:
    """Also where interruptions are ignored, as in what a shell runs in the background: ping and irtt handle them."""
    script = (
        "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(print('told') or 0));"
        " print('runs', flush=True); time.sleep(600)"
    )
    stoppable = Stoppable(Here())
    with stoppable.start([sys.executable, "-c", script]) as program:
        assert program.read_line(PATIENCE_S) == "runs"
        stoppable.stop()
        assert program.wait(PATIENCE_S).stdout == "told\n"


def test_held_pings_are_what_the_tests_hold() -> None:
    """The stand-in itself: it ends only when it is interrupted."""
    ping = HeldPing()
    ping.answer(30)
    ping.interrupt()
    assert [line.split()[0] for line in ping.lines()] == ["[1000.020000]", "2"]
