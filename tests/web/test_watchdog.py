"""The watchdog inside the server: it repairs, tells all who watch, and ends with the server."""

from __future__ import annotations

import io
import json
import os
import select
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.waiting import PATIENCE_S
from support.web_daemon import AUTHOR, TOKENS, House, asked

from emulator.control.appliance import Appliance
from emulator.control.remote import Client
from emulator.control.watchdog_thread import Watchdog
from emulator.kernel.fake import FakeKernel
from emulator.plan.qdisc_ops import DelEgress
from emulator.system.event_log import logger
from web import wiring
from web.auth.guard import Guard


class Ears:
    """Hears what the test says."""

    def __init__(self) -> None:
        self.news, self._say = os.pipe()

    def say(self) -> None:
        """Something changed."""
        os.write(self._say, b".")

    def wait(self, timeout_s: float, wake_fd: int | None = None) -> bool:
        """As `kernel.watch.Watch`, over a pipe."""
        assert wake_fd is not None
        ready = select.select([self.news, wake_fd], [], [], timeout_s)[0]
        return self.news in ready and bool(os.read(self.news, 100))

    def close(self) -> None:
        """Hear no more."""
        os.close(self.news)
        os.close(self._say)


@pytest.mark.parametrize("on_drift", ["restore", "report"])
def test_drift_is_repaired_or_told_and_those_who_watch_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_drift: str
) -> None:
    monkeypatch.setattr("web.live.HEARTBEAT_S", PATIENCE_S)  # no comment may come before an event
    house, out, ears = House(tmp_path), io.StringIO(), Ears()
    house.up()
    house.appliance.up(replace(asked(house), on_drift=on_drift))
    events = house.live.channel.watch()
    next(events)
    watchdog = Watchdog(house.usecases, wiring.reporting(logger(out, {}), house.live.channel), ears, period_s=3600.0)

    def answer() -> dict[str, object]:
        kind, data = (line.split(": ", 1)[1] for line in next(events).decode().splitlines()[1:3])
        assert kind == "watchdog"
        return dict(json.loads(data))

    watchdog.start()
    assert answer() == {"level": "info", "event": "watching", "period_s": 3600.0}
    house.usecases.status()
    house.tick()
    changes = house.usecases.changes
    house.kernel.apply(DelEgress("lhs-japan"))
    assert house.usecases.status().drift
    ears.say()
    found = answer()
    watchdog.stop()
    assert (found["event"], found["steps"]) == ("repaired" if on_drift == "restore" else "drift", 2)
    assert "lhs-japan" in str(found["first"])
    house.tick()
    assert bool(house.usecases.status().drift) == (on_drift == "report")
    assert house.usecases.changes - changes == (on_drift == "restore"), (
        "pages read everything anew when it was repaired"
    )
    assert answer()["event"] == "stopped"
    assert [line.split()[1] for line in out.getvalue().splitlines()][1:] == [
        f"event={found['event']}", "event=stopped",
    ]  # fmt: skip


def test_a_thread_that_ends_before_stop_waits_for_it_says_that_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, out, ears = House(tmp_path), io.StringIO(), Ears()
    house.up()
    watchdog = Watchdog(house.usecases, logger(out, {}), ears)
    write = os.write

    def written_and_ended(fd: int, data: bytes) -> int:
        count = write(fd, data)
        next(one for one in threading.enumerate() if one.name == "watchdog").join(PATIENCE_S)
        return count

    watchdog.start()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", written_and_ended)
        watchdog.stop()
    assert out.getvalue().splitlines()[-1].split()[1] == "event=stopped"


def test_the_server_has_it_and_says_how_long_ago_it_looked(tmp_path: Path) -> None:
    appliance = Appliance(FakeKernel(), tmp_path, author=AUTHOR, guard=lambda _: None)
    server = wiring.server(appliance, tmp_path, Guard(TOKENS), "127.0.0.1:0")
    thread = threading.Thread(target=server.run)
    thread.start()
    client, deadline = Client(f"http://{server.address}"), time.monotonic() + PATIENCE_S
    while json.loads(client.ask("GET", "/healthz").text)["watched_s_ago"] is None:
        assert time.monotonic() < deadline
    server.end()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert not any(one.name == "watchdog" for one in threading.enumerate())
