"""A FakeKernel with a clock by hand, on which schedules are played."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.change_log import Author
from emulator.control.intent_store import IntentStore
from emulator.control.schedule_player import Player
from emulator.control.watchdog_loop import WatchdogLoop
from emulator.kernel.fake import FakeKernel
from emulator.model.timeline import Timeline
from emulator.model.topology import Topology
from emulator.system.event_log import logger
from emulator.system.sd_notify import Notifier
from support.hand_clock import HandAlarm, HandClock

MS, S = 10**6, 10**9


def scheduled(tracks: str, rest: str = "", lane: str = "{rtt: 80ms}", more: str = "") -> Topology:
    """The lanes a and b under a schedule."""
    text = f"{{name: x, hub: h, {more} lanes: {{a: {lane}, b: {lane}}}, schedule: {{{rest} tracks: [{tracks}]}}}}"
    return loader.loads(text)


class Box:
    """A FakeKernel with a clock by hand, on which schedules are played. `appliance` is a new process on it."""

    def __init__(self, folder: Path, slow_ns: int = 0) -> None:
        self.kernel, self.clock, self.folder, self.out = FakeKernel(), HandClock(), folder, io.StringIO()
        self.alarm, self.end_ns = HandAlarm(self.clock, slow_ns), 0

    def appliance(self) -> Appliance:
        author = Author("root", 0, 1, "x")
        return Appliance(self.kernel, self.folder, author=author, clock=self.clock, guard=lambda _: None)

    def up(self, topology: Topology) -> Box:
        self.appliance().up(topology)
        self.kernel.log.clear()
        return self

    def player(self) -> Player:
        """Of what is up."""
        now = IntentStore(self.folder).read()
        assert now.topology and now.topology.schedule and now.began_ns is not None
        return Player(self.kernel, Timeline(now.topology, now.topology.schedule), now.began_ns, self.alarm)

    def play(self, reported: Callable[[], None] = lambda: None) -> Player:
        """Ten seconds of it; calls `reported` after every change."""
        player, end_ns = self.player(), self.alarm.now_ns() + 10 * S
        while (due_ns := player.due_ns) is not None and due_ns < end_ns:
            player.play()
            reported()
        player.read_back()
        return player

    def wait(self, timeout_s: float, wake_fd: int | None = None) -> bool:
        """Waits for changes of the kernel, of which none comes."""
        self.clock.now_ns = min(self.clock.now_ns + round(timeout_s * S), self.end_ns)
        return False

    def watch(self, until_s: float, period_s: float = 10) -> Box:
        """A daemon for so long: at first it makes all as it should be, then it waits."""
        now = lambda: self.clock.now_ns / 1e9  # noqa: E731
        log = logger(self.out, {})
        daemon = WatchdogLoop(self.appliance(), self, log, Notifier({}, 1), now, period_s, self.alarm)
        self.end_ns = self.clock.now_ns + round(until_s * S)
        daemon.start()
        daemon.run(0, lambda: self.clock.now_ns >= self.end_ns)
        return self

    def rtts(self) -> list[float]:
        """What the lanes have now, in ms."""
        ways = [[self.kernel.ports[f"lh{side}-{lane}"].egress for side in "sh"] for lane in "ab"]
        return [sum(one.netem.delay_ns for one in both if one) / MS for both in ways]

    @property
    def events(self) -> list[str]:
        return [line.split()[1].removeprefix("event=") for line in self.out.getvalue().splitlines()]
