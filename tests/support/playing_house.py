"""A daemon of the tests whose lanes follow a schedule."""

from __future__ import annotations

from pathlib import Path

from emulator.control.appliance import Appliance
from support.hand_clock import HandAlarm, HandClock
from support.web_daemon import AUTHOR, CountingKernel, House


class PlayingHouse(House):
    """It plays the schedule of `topology` (YAML), second by second of a clock that the test moves."""

    def __init__(self, folder: Path, topology: str) -> None:
        self.hand, kernel = HandAlarm(HandClock()), CountingKernel()
        appliance = Appliance(kernel, folder, author=AUTHOR, clock=self.hand.clock, guard=lambda _: None)
        super().__init__(folder, appliance)
        self.kernel = kernel
        assert self.client.put("/api/topology", data=topology, content_type="application/yaml").status_code == 200
        self.follower = self.usecases.follower(self.hand)

    def tick(self, seconds: float = 1.0) -> None:
        """The schedule goes on, and then the daemon's clock: no status is kept that is older than the lanes."""
        end_ns = self.hand.now_ns() + round(seconds * 1e9)
        while (due_ns := self.follower.due_ns) is not None and due_ns <= end_ns:
            self.follower.play()
        self.hand.sleep_until(end_ns)
        super().tick(seconds)
