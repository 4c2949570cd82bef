"""Two things at the same moment: what ends, begins or goes while somebody else reads, stops or ends it."""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import made_recordings
from support.gated_runs import Gate, begin
from support.waiting import PATIENCE_S
from support.web_daemon import AUTHOR, House, problem, until

from emulator.cli import main
from emulator.control.appliance import Appliance
from emulator.experiment.run_folder import Asked, RunFolder
from emulator.kernel.fake import FakeKernel
from emulator.report import write
from emulator.system import kept_file
from web.recordings import Recording
from web.runs import Run

TWO_CELLS = {"rtt": ["1ms"]}


@pytest.fixture
def house(gated: House) -> House:
    """A daemon with nothing up."""
    return gated


@contextmanager
def stopped_when_a_thread_is_about_to_start(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` in another thread just before the block's first thread starts; it has ended after the block."""
    stopping, start = threading.Thread(target=stop), threading.Thread.start

    def after_stop(thread: threading.Thread) -> None:
        if stopping.ident is None:
            start(stopping)
            stopping.join(0.2)  # time to do it wrong: to do it right it must wait for what begins
        start(thread)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", after_stop)
        yield
    stopping.join(PATIENCE_S)
    assert not stopping.is_alive()


def test_a_run_that_ends_while_its_results_are_read_is_never_taken_for_stopped(
    house: House, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = begin(house, **TWO_CELLS)
    gate.open(1)
    until(house, name, lambda run: run["finished"] == 1 and len(gate.begun) == 2)
    real, reader = RunFolder.finished, threading.current_thread()

    def finished(folder: RunFolder, asked: Asked) -> Any:
        found = real(folder, asked)
        if threading.current_thread() is reader:
            gate.open(1)
            house.runs.stop()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "finished", finished)
        assert house.runs.get(name).state == "running"
    assert house.runs.get(name).state == "done"


def test_a_daemon_that_stops_while_a_run_begins_waits_for_its_end(house: House, gate: Gate) -> None:
    gate.open(2)
    with stopped_when_a_thread_is_about_to_start(house.runs.stop):
        name = begin(house, **TWO_CELLS)
    assert house.runs.get(name).state != "running"


def test_watchers_hear_at_last_that_a_run_is_deleted_though_its_end_is_said_just_then(house: House, gate: Gate) -> None:
    gate.open(2)
    say, ended = house.runs._say, threading.Event()
    deleting = threading.Thread(target=lambda: house.runs.remove(name))

    def said(run: Run) -> None:
        if run.state != "done":
            say(run)
            return
        deleting.start()
        deleting.join(0.2)  # time to do it wrong: to do it right it must wait
        say(run)
        ended.set()

    house.runs._say = said
    name = begin(house, **TWO_CELLS)
    assert ended.wait(PATIENCE_S)
    deleting.join(PATIENCE_S)
    assert [run.state for run in house.reported][-2:] == ["done", "deleted"]


def test_a_report_is_drawn_to_its_end_though_its_run_is_deleted_meanwhile(
    house: House, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.open(2)
    name = begin(house, **TWO_CELLS)
    until(house, name, lambda run: run["state"] == "done")
    deleting, real = threading.Thread(target=house.runs.remove, args=(name,)), write.page

    def drawn(*what: Any) -> None:
        deleting.start()
        deleting.join(0.2)  # time to do it wrong
        real(*what)

    monkeypatch.setattr(write, "page", drawn)
    answer = house.client.get(f"/api/runs/{name}/report?format=html")
    deleting.join(PATIENCE_S)
    assert (answer.status_code, "<svg" in answer.text) == (200, True)
    assert house.client.get("/api/runs").json["runs"] == []


def test_a_daemon_that_stops_while_a_verification_begins_waits_for_its_end(up: House) -> None:
    with stopped_when_a_thread_is_about_to_start(up.verifications.stop):
        assert up.client.post("/api/verification").status_code == 201
    assert up.verifications.last
    assert up.verifications.last.state != "running"


def test_a_verification_that_begins_while_the_daemon_stops_is_cancelled(
    up: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    up.tools.held = threading.Semaphore(0)
    stopping, real = threading.Thread(target=up.verifications.stop), up.usecases.holding

    def holding() -> Any:
        stopping.start()
        stopping.join(0.2)  # time to do it wrong
        return real()

    monkeypatch.setattr(up.usecases, "holding", holding)
    assert up.client.post("/api/verification").status_code == 201
    cancelled = up.verifications._cancelled.wait(PATIENCE_S)
    up.tools.held.release(100)
    stopping.join(PATIENCE_S)
    assert up.verifications.last
    assert (cancelled, up.verifications.last.state) == (True, "cancelled")


def test_a_recording_that_goes_while_all_are_listed_hides_no_other(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("paris", "rome"):
        made_recordings.folder(house.appliance.state_dir / "recordings" / name, made_recordings.one_way(1, 1000))
    real = house.recordings.get

    def gone(name: str) -> Recording:
        if name == "paris":
            house.recordings.remove(name)
        return real(name)

    monkeypatch.setattr(house.recordings, "get", gone)
    assert [one["name"] for one in house.client.get("/api/recordings").json["recordings"]] == ["rome"]


def test_a_certificate_that_goes_while_it_is_read_is_not_there(up: House, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (up.client.post("/api/certificates?count=3").json["id"] for _ in range(2))
    real = kept_file.read

    def gone(file: Path, *rest: Any) -> bytes:
        if file.stem == first:
            file.unlink(missing_ok=True)
        return real(file, *rest)

    monkeypatch.setattr(kept_file, "read", gone)
    assert [one["id"] for one in up.client.get("/api/certificates").json["certificates"]] == [second]
    problem(up.client.get(f"/api/certificates/{first}"), 404)


def test_who_reads_the_servers_address_may_end_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appliance = Appliance(FakeKernel(), tmp_path, author=AUTHOR, guard=lambda _: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    serve = importlib.import_module("emulator.cli.serve")
    monkeypatch.setenv("LONGHAUL_STATE", str(tmp_path))
    monkeypatch.setattr(serve, "_report", lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        assert main.main(["serve", "--listen", "127.0.0.1:0"], obj=appliance) == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
