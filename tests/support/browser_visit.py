"""A daemon to be visited by a browser, and how patient the visitor is."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from support.waiting import PATIENCE_S
from support.web_daemon import House
from web.server import Server

LIMIT_MS = PATIENCE_S * 1000


@dataclass
class Site:
    """A daemon with the founding star up, served; its looks are taken by the test."""

    house: House
    server: Server
    thread: threading.Thread

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.server.address}"

    def look(self) -> None:
        """A second goes by."""
        self.house.tick()
        self.house.live.look()

    def stop(self) -> None:
        """The daemon is gone."""
        self.house.live.channel.close()
        self.server.end()
        self.thread.join(PATIENCE_S)

    def start(self, house: House) -> None:
        """It is back, at the same address."""
        self.house, address = house, self.server.address
        self.server = Server(house.app, address, threads=12)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
