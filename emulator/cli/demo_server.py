"""The demo: a star of virtual lanes with traffic, and the web server over it.

`longhaul serve --demo` runs `python3 -m emulator.cli.demo_server` in the lab; the serial line connects it to the host's
port. With the number of a listening socket, it is what `--here` runs in namespaces of this machine; see
`demo_unshare`.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import tty

from emulator.cli import web_package
from emulator.config import loader
from emulator.config.shipped_topologies import shipped
from emulator.control.intent_store import IntentStore
from emulator.control.local import local
from emulator.errors import LonghaulError
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools.process import Running
from emulator.hosts.tools.workloads import BACKGROUND
from emulator.lab.serial_forward import Forward
from emulator.model.topology import Topology
from emulator.system import state_dir

LINE = "/dev/ttyS0"
TOPOLOGY = shipped("demo")
ADDRESS = ("127.0.0.1", 8642)
LOOK_S = 2.0
RATES = ("3M", "2M", "1M")
"""The rates of the lanes' traffic, in turn: enough for graphs. The lab has one CPU, in real time."""


class DemoTraffic:
    """One TCP stream for each virtual lane from the hub to its site, restarted when it ends.

    While a test run has leased the lanes there is no such traffic, so that it cannot disturb the measurement.
    """

    def __init__(self, store: IntentStore) -> None:
        self._store, self._programs = store, dict[tuple[str, str], Running]()

    def keep(self) -> None:
        """Start what is missing: each site's server first, its client once the server listens.

        While the intent cannot be read the traffic stays as it is, as the lanes do.
        """
        try:
            asked = self._store.read()
        except LonghaulError:
            return  # the watchdog and the page say so
        topology = None if asked.leased else asked.topology
        rates = {lane.name: RATES[n % len(RATES)] for n, lane in enumerate(topology.virtual_lanes if topology else ())}
        for key in [key for key, program in self._programs.items() if key[0] not in rates or not program.running()]:
            self._programs.pop(key).terminate()
        for name, rate in rates.items():
            assert topology
            try:
                self._keep_one(topology, name, rate)
            except LonghaulError:
                continue  # the lane has just gone; the next check notices it

    def _keep_one(self, topology: Topology, name: str, rate: str) -> None:
        hub, site = topology.ends(name)
        if (name, "server") not in self._programs:
            self._programs[name, "server"] = BACKGROUND.start_server(NamespaceHost(site.host))
        elif (name, "client") not in self._programs and NamespaceHost(site.host).is_listening(BACKGROUND.port):
            client = BACKGROUND(rate).start(NamespaceHost(hub.host), str(site.address.ip))
            self._programs[name, "client"] = client


def main(listening: str = "") -> int:
    """Bring the star up, start the traffic and serve; returns only on failure."""
    web_package.provide()
    from web import wiring
    from web.auth.guard import Guard
    from web.auth.tokens import load

    appliance, state = local(), state_dir.state_dir()
    appliance.up(loader.load(TOPOLOGY))
    guard = Guard(load(state), login=False)
    listen = socket.socket(fileno=int(listening)) if listening else "{}:{}".format(*ADDRESS)
    server = wiring.server(appliance, state, guard, listen, lab=False, demo=True)
    if not listening:
        threading.Thread(target=_forward, name="forward", daemon=True).start()
    threading.Thread(target=_keep, args=(DemoTraffic(IntentStore(state)),), name="traffic", daemon=True).start()
    server.end_on_signals()
    server.run()
    return 0


def _forward() -> None:
    line = os.open(LINE, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
    tty.setraw(line)
    forward = Forward(line, os.dup(line), connect=lambda: socket.create_connection(ADDRESS))
    forward.hello()
    while True:
        forward.step(60.0)


def _keep(traffic: DemoTraffic) -> None:
    pause = threading.Event()
    while not pause.wait(LOOK_S):
        traffic.keep()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
