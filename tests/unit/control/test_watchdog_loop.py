"""The watchdog: what it does at start, at news, at a deadline; what it tells; how it ends. No wall time in it."""

from __future__ import annotations

import ctypes
import errno
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.fake_daemon import ONE, Stage
from support.waiting import PATIENCE_S

from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.control.reverter import wait_and_expire
from emulator.control.schedule_player import Follower
from emulator.control.watchdog_loop import _stop_signals
from emulator.errors import RefusedError
from emulator.kernel.fake import FakeKernel
from emulator.kernel.watch import Watch
from emulator.model.impairment import Impairment
from emulator.model.schedule import Keyframe, Schedule, Track
from emulator.model.topology import Lane
from emulator.plan.engine_lane import DEAD
from emulator.plan.qdisc_ops import DelEgress
from emulator.plan.state import State
from emulator.system.event_log import INFO, WARNING, logger
from emulator.system.sd_notify import Notifier


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_after_a_reboot_it_brings_the_lanes_up_even_if_drift_is_only_reported(stage: Stage) -> None:
    stage.appliance().up(replace(ONE, on_drift="report"))
    stage.kernel = FakeKernel()
    stage.played()
    assert stage.as_asked()
    assert stage.events == ["repaired", "watching"]


def test_news_of_drift_is_acted_upon_at_once(stage: Stage) -> None:
    stage.appliance().up(ONE)
    stage.played(stage.drift, stage.nothing)
    assert stage.as_asked()
    assert stage.events == ["watching", "repaired"]


def test_drift_is_told_once_until_it_is_over(stage: Stage) -> None:
    stage.appliance().up(replace(ONE, on_drift="report"))
    stage.played(stage.drift, stage.nothing, stage.nothing)
    assert not stage.as_asked()
    assert stage.events == ["watching", "drift"]
    assert 'repair="longhaul up FILE"' in stage.out.getvalue()

    def repaired() -> bool:
        stage.appliance().up(replace(ONE, on_drift="report"))
        return True

    stage.out.truncate(0)
    stage.appliance().repair(restore=True)
    stage.played(stage.drift, repaired, stage.drift, stage.nothing)
    assert stage.events[-4:] == ["watching", "drift", "as-asked", "drift"]


def test_lanes_that_nobody_asked_for_here_are_told_and_left(stage: Stage) -> None:
    stage.appliance().up(ONE)
    before = stage.kernel.observe()
    shutil.rmtree(stage.folder)
    stage.played(stage.nothing)
    assert stage.kernel.observe() == before
    assert stage.events == ["drift", "watching"]
    assert 'repair="longhaul up FILE to keep them, longhaul down to remove them"' in stage.out.getvalue()


def test_an_engine_that_died_is_started_again_even_if_drift_is_only_reported(stage: Stage) -> None:
    both = replace(ONE, lanes=(*ONE.lanes, Lane("london", Impairment(9))), on_drift="report", datapath="wire")
    stage.appliance().up(both)
    japan, london = (stage.kernel.wires[name] for name in ("lh-japan", "lh-london"))
    others = replace(london, outbound=japan.outbound)

    def death_and_drift() -> bool:
        stage.kernel.wires |= {"lh-japan": DEAD, "lh-london": others}
        return True

    stage.played(death_and_drift, stage.nothing)
    assert stage.kernel.wires == {"lh-japan": japan, "lh-london": others}
    assert stage.events == ["watching", "repaired", "drift"]
    last = stage.appliance().history(1)[0]
    assert (last.author.command, last.summary) == ("watchdog", "2 steps: its engine has died")


def test_it_looks_every_period_and_exactly_at_a_deadline(stage: Stage) -> None:
    stage.appliance().up(ONE)
    stage.appliance().up(replace(ONE, seed=2), confirm_s=25)
    waits = stage.played(*[stage.nothing] * 4)
    assert waits == [10, 10, 5, 10]
    assert stage.appliance().topology() == ONE
    assert stage.events == ["watching", "reverted"]


def test_a_failure_is_told_and_tried_again(stage: Stage) -> None:
    stage.appliance().up(ONE)
    stage.drift()
    stage.kernel.fail_at = len(stage.kernel.log)
    stage.played(stage.nothing, stage.nothing)
    assert stage.events == ["failed", "watching", "repaired", "as-asked"]
    assert stage.as_asked()


@pytest.mark.parametrize("error", [ValueError("no such code"), KeyError("nic7"), RuntimeError("")])
def test_no_failure_ends_it_and_the_revert_comes_a_second_later(stage: Stage, error: Exception) -> None:
    stage.appliance().up(ONE)
    stage.appliance().up(replace(ONE, seed=2), confirm_s=5)
    observe = stage.kernel.observe

    def fails_once() -> bool:
        def failing() -> State:
            stage.kernel.observe = observe  # type: ignore[method-assign]
            raise error

        stage.kernel.observe = failing  # type: ignore[method-assign]
        return False

    assert stage.played(fails_once, *[stage.nothing] * 2) == [5, 1, 10]
    assert stage.appliance().topology() == ONE
    assert stage.events == ["watching", "failed", "reverted", "as-asked"]
    assert f"kind={type(error).__name__}" in stage.out.getvalue()


def test_a_failing_state_folder_or_schedule_does_not_end_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = (Keyframe(0, (("rtt_ns", 7),)), Keyframe(15 * 10**9, (("rtt_ns", 9),)))
    stage.appliance().up(replace(ONE, schedule=Schedule((Track(("japan",), keys),))))
    real, failing = Follower.play, ["play", "pending_ns", "due_ns"]

    def failing_once(name: str) -> None:
        if name in failing:
            failing.remove(name)
            raise ValueError(name)

    monkeypatch.setattr(Follower, "play", lambda one: (failing_once("play"), real(one)))
    due = Follower.due_ns.fget
    monkeypatch.setattr(Follower, "due_ns", property(lambda one: (failing_once("due_ns"), due(one))[1]))
    pending = Appliance.pending_ns
    monkeypatch.setattr(Appliance, "pending_ns", lambda one: (failing_once("pending_ns"), pending(one))[1])
    stage.played(*[stage.nothing] * 20)
    assert failing == []
    assert [stage.events.count(name) for name in ("failed", "watching")] == [3, 1]
    assert stage.kernel.ports["lhs-japan"].egress.netem.delay_ns == 5  # type: ignore[union-attr]


def test_restless_links_leave_it_a_fifth_of_the_time(stage: Stage) -> None:
    """Looking takes a second here, and there is news all the time: it looks every five seconds."""
    stage.appliance().up(ONE)
    looks: list[int] = []
    observe = stage.kernel.observe

    def slow() -> State:
        looks.append(stage.clock.now_ns)
        stage.clock.pass_s(1)
        return observe()

    def noise() -> bool:
        stage.clock.pass_s(0.5)
        return True

    stage.kernel.observe = slow  # type: ignore[method-assign]
    stage.played(*[noise] * 40, period_s=60)
    gaps = [round((b - a) / 1e9, 3) for a, b in pairwise(looks[1:])]
    assert gaps and set(gaps) == {5.0}


def test_the_service_manager_hears_that_it_is_ready_and_alive(stage: Stage, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "7"}
        stage.notifier = Notifier(environment, 7)
        waits = stage.played(*[stage.nothing] * 4)
        reported = []
        while True:
            try:
                reported.append(manager.recv(1000).decode())
            except BlockingIOError:
                break
    assert waits == [3, 3, 3, 1], "half of the manager's limit, and the period"
    assert reported[:2] == ["WATCHDOG=1", "READY=1\nSTATUS=watching"]
    assert set(reported[2:]) == {"WATCHDOG=1"} and len(reported) >= 6
    assert Notifier(environment, 8).ping_s is None
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}, 1).report("READY=1")


def test_log_lines_are_words_a_machine_reads() -> None:
    out = io.StringIO()
    logger(out, {})(WARNING, "drift", lane="japan", why='a "b"\nc', empty="")
    logger(out, {"JOURNAL_STREAM": "8:1"})(INFO, "watching", period_s=10.0)
    logger(out, {}, as_json=True)(INFO, "watching", period_s=10.0)
    assert out.getvalue().splitlines() == [
        r'level=warning event=drift lane=japan why="a \"b\"\nc" empty=""',
        "<6>level=info event=watching period_s=10.0",
        '{"level": "info", "event": "watching", "period_s": 10.0}',
    ]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernel has no news: other programs may change this machine's links."""
    news, kernel = socket.socketpair()
    with news, kernel:
        monkeypatch.setattr("emulator.kernel.watch.opened", lambda _: news)
        yield


@pytest.mark.usefixtures("quiet")
def test_a_signal_wakes_and_stops_it(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with _stop_signals() as (wake_fd, stopped):
        assert not stopped()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped()
        ears = Watch(tmp_path / "intent.json")
        assert not ears.wait(60, wake_fd)
        ears.close()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.usefixtures("quiet")
def test_a_new_desire_is_news_and_nothing_else_in_its_folder(tmp_path: Path) -> None:
    ears = Watch(tmp_path / "intent.json")
    for name, heard in (("schedule.json", False), ("intent.json", True)):
        (tmp_path / "draft").write_text("{}")
        (tmp_path / "draft").replace(tmp_path / name)
        assert ears.wait(0.001) == heard
    ears.close()


@pytest.mark.usefixtures("quiet")
def test_a_kernel_without_inotify_tells_of_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: int) -> int:
        ctypes.set_errno(errno.ENOSYS)
        return -1

    monkeypatch.setattr("emulator.kernel.watch._libc.inotify_init1", missing)
    ears = Watch(tmp_path / "intent.json")
    assert not ears.wait(0.001)
    ears.close()


def test_a_reverter_waits_for_the_deadline_of_the_moment(stage: Stage) -> None:
    appliance, slept = stage.appliance(), []
    appliance.up(ONE, confirm_s=8)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        stage.clock.pass_s(seconds)
        if len(slept) == 1:
            appliance.up(replace(ONE, seed=2), confirm_s=9)

    wait_and_expire(IntentStore(stage.folder), stage.appliance, stage.clock, sleep, pytest.fail)
    assert slept == [5, 5, 4]
    assert stage.appliance().topology() is None
    assert stage.as_asked()


def test_a_reverter_that_fails_tells_and_tries_again(stage: Stage) -> None:
    appliance, slept, reported = stage.appliance(), [], []
    appliance.up(ONE, confirm_s=1)
    stage.clock.pass_s(1)

    class Reluctant:
        def expire(self) -> bool:
            if len(reported) < 3:
                raise RefusedError("port nic0: has an address") if len(reported) < 2 else ValueError("no such code")
            return appliance.expire()

    wait_and_expire(IntentStore(stage.folder), Reluctant, stage.clock, slept.append, reported.append)
    assert (slept, len(reported)) == ([1, 2, 4], 3)
    assert "has an address" in reported[0]
    assert reported[2] == "cannot revert the unconfirmed change: ValueError: no such code"
    assert stage.as_asked()


def test_a_real_reverter_outlives_its_parent_and_ends_when_it_is_not_needed(tmp_path: Path) -> None:
    """Nothing is pending, so it ends by itself; that it runs detached shows in its parent being gone at once."""
    code = (
        "import sys; from pathlib import Path; from emulator.control import revert_start; "
        "revert_start.start(Path(sys.argv[1])); print('started')"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (ran.stdout, ran.stderr) == ("started\n", "")


def test_the_log_in_json_is_json() -> None:
    out = io.StringIO()
    logger(out, {"JOURNAL_STREAM": "8:1"}, as_json=True)(INFO, "x", op=DelEgress("a").port)
    assert json.loads(out.getvalue()) == {"level": "info", "event": "x", "op": "a"}
