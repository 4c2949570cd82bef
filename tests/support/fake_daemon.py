"""A daemon on a stage: ears that play scenes, a clock that passes with them, and the kernel in memory."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from emulator.control.appliance import Appliance
from emulator.control.change_log import Author
from emulator.control.watchdog_loop import WatchdogLoop
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology
from emulator.plan.desired_state import wanted
from emulator.plan.qdisc_ops import DelEgress
from emulator.plan.state import State
from emulator.system.event_log import logger
from emulator.system.sd_notify import Notifier
from support.hand_clock import HandAlarm, HandClock

ONE = Topology("one", "hub", (Lane("japan", Impairment(7)),), on_drift="restore")


@dataclass
class Script:
    """Stands for ears: each wait plays the next scene, which says what is heard, and passes its time."""

    clock: HandClock
    scenes: list[Callable[[], bool]]
    waits: list[float] = field(default_factory=list)

    def wait(self, timeout_s: float, wake_fd: int | None = None) -> bool:
        self.waits.append(timeout_s)
        heard = self.scenes.pop(0)()
        if not heard:
            self.clock.pass_s(timeout_s)
        return heard


class Stage:
    """A daemon over the kernel in memory; `played` runs it until the scenes are over."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.kernel, self.out, self.folder = HandClock(), FakeKernel(), io.StringIO(), folder
        self.notifier = Notifier({}, 1)

    def appliance(self) -> Appliance:
        author = Author("root", 0, 1, "longhaul")
        return Appliance(self.kernel, self.folder, author=author, clock=self.clock, guard=lambda _: None)

    def played(self, *scenes: Callable[[], bool], period_s: float = 10) -> list[float]:
        ears = Script(self.clock, list(scenes))
        log = logger(self.out, {})
        now = lambda: self.clock.now_ns / 1e9  # noqa: E731
        daemon = WatchdogLoop(self.appliance(), ears, log, self.notifier, now, period_s, HandAlarm(self.clock))
        daemon.start()
        daemon.run(0, lambda: not ears.scenes)
        return ears.waits

    def drift(self) -> bool:
        self.kernel.apply(DelEgress("lhs-japan"))
        return True

    def nothing(self) -> bool:
        return False

    def as_asked(self) -> bool:
        have, topology = self.kernel.observe(), self.appliance().topology()
        return have == (wanted(topology, have) if topology else State())

    @property
    def events(self) -> list[str]:
        return [line.split()[1].removeprefix("event=") for line in self.out.getvalue().splitlines()]
