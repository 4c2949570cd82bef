"""One session of the wire engine with flows, in real time and in namespaces of its own: what it finds goes to stdout.

`tests/engine/test_flows.py` starts it and judges what it found.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.kernel import engine_client
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.topology import Topology
from support.engine_session import kill, left_behind
from support.host_traffic import DEADLINE_S, punctual, sockets
from support.waiting import until

MS = 10**6
REST, QUICK, TWICE, LOST, NEW = 7000, 7001, 7002, 7003, 7004
EF = 46
BETWEEN = 200
"""So many datagrams of each stream go between two changes."""
FLOWS = f"""
name: flows
hub: hub
datapath: wire
lanes:
  a:
    rtt: 80ms
    flows:
      quick: {{match: {{protocol: udp, site_port: {QUICK}}}, rtt: 20ms}}
      twice: {{match: {{protocol: udp, site_port: {TWICE}}}, rtt: 40ms, duplicate: 100%}}
      lost: {{match: {{protocol: udp, site_port: {LOST}}}, rtt: 2ms, loss: 100%}}
      marked: {{match: {{dscp: ef}}, rtt: 160ms}}
"""
OTHERS = f"""
name: flows
hub: hub
datapath: wire
lanes:
  a:
    rtt: 40ms
    flows:
      new: {{match: {{protocol: udp, site_port: {NEW}}}, rtt: 12ms}}
      quick: {{match: {{protocol: udp, site_port: {QUICK}}}, rtt: 16ms, rate: 100Mbit}}
"""
ENGINE = "lh-a"


def echo(there: socket.socket, seen: Counter[bytes]) -> None:
    """Answers every datagram until the last."""
    with punctual():
        while (datagram := there.recvfrom(2000))[0] != b"last":
            seen[datagram[0]] += 1
            there.sendto(*datagram)


@contextmanager
def answered(topology: Topology, port: int, dscp: int = 0) -> Any:
    """A socket of the hub's, connected to one at the site that answers, and what the site's has seen."""
    seen = Counter[bytes]()
    with sockets("hub", "a", socket.SOCK_DGRAM) as (here, there):
        there.bind(("", port))
        for one in (here, there):
            one.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        here.connect((str(topology.address("a").ip), port))
        thread = threading.Thread(target=echo, args=(there, seen))
        thread.start()
        yield here, seen
        if thread.is_alive():
            with sockets("a", "a", socket.SOCK_DGRAM) as (_, killer):
                killer.sendto(b"last", ("127.0.0.1", port))
        thread.join()


def least_rtt_ns(topology: Topology, port: int, dscp: int = 0, patience_s: float = DEADLINE_S) -> int | None:
    """The least of twenty round trips to a port; None where nothing comes back."""
    found = []
    with answered(topology, port, dscp) as (here, _), punctual():
        here.settimeout(patience_s)
        for number in range(20):
            sent = time.monotonic_ns()
            here.send(str(number).encode())
            try:
                while here.recv(2000) != str(number).encode():
                    pass
            except TimeoutError:
                return None
            found.append(time.monotonic_ns() - sent)
    return min(found)


def copies(topology: Topology, port: int, count: int = 200) -> int:
    """How many datagrams arrive at the site of so many that are sent."""
    with answered(topology, port) as (here, seen):
        for number in range(count):
            here.send(str(number).encode())
            time.sleep(0.0005)
        assert until(lambda: sum(seen.values()) >= 2 * count)
        # More than twice would come, too.
        time.sleep(0.3)
    return sum(seen.values())


class Stream:
    """A numbered stream from hub to site, until it is stopped: what was sent, and what arrived in order."""

    def __init__(self, topology: Topology, port: int, patience_s: float = DEADLINE_S) -> None:
        self._patience_s = patience_s
        self.sent, self.arrived, self._stop = 0, list[int](), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(topology, port))

    def __enter__(self) -> Stream:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self, topology: Topology, port: int) -> None:
        with sockets("hub", "a", socket.SOCK_DGRAM) as (here, there):
            there.bind(("", port))
            there.settimeout(self._patience_s)
            here.connect((str(topology.address("a").ip), port))
            receiver = threading.Thread(target=self._receive, args=(there,))
            receiver.start()
            while not self._stop.is_set():
                here.send(str(self.sent).encode().ljust(1000))
                self.sent += 1
                time.sleep(0.0005)
            here.send(b"last")
            receiver.join()

    def _receive(self, there: socket.socket) -> None:
        with suppress(TimeoutError):
            while (data := there.recv(2000)) != b"last":
                self.arrived.append(int(data))

    @property
    def told(self) -> dict[str, Any]:
        """How many were sent, and whether all came once and in order."""
        return {"sent": self.sent, "whole": self.arrived == list(range(self.sent))}


def live(topology: Topology, changes: list[Callable[[], object]]) -> dict[str, Any]:
    """Streams through a flow that stays and through the rest, while flows change, come and go."""
    with Stream(topology, QUICK) as quick, Stream(topology, REST) as rest:
        for number, change in enumerate(changes, 1):
            assert until(lambda: min(quick.sent, rest.sent) >= number * BETWEEN)  # noqa: B023
            change()
        assert until(lambda: min(quick.sent, rest.sent) >= (len(changes) + 1) * BETWEEN)
    return {"quick": quick.told, "rest": rest.told}


def counters(appliance: Appliance) -> dict[str, Any]:
    """What status tells of each flow outbound, by name, and of the rest."""
    one = appliance.status().lanes[0]
    flows = zip(one.lane.flows, one.outbound.flows, strict=True)
    return {flow.name: asdict(part.counters) for flow, part in flows} | {"rest": asdict(one.outbound.counters)}


def killed(appliance: Appliance, topology: Topology) -> dict[str, Any]:
    """kill -9 amid traffic of a flow: seen, and put right with all flows."""
    # The last of them finds no engine any more.
    with Stream(topology, QUICK, patience_s=0.5) as stream:
        assert until(lambda: stream.sent > 100)
        kill(ENGINE)
    drift = [step.why for step in appliance.status().drift]
    appliance.up(topology)
    found = {"drift": drift, "left": len(appliance.status().drift), "quick_ns": least_rtt_ns(topology, QUICK)}
    return found | {"rest_ns": least_rtt_ns(topology, REST), "twice": copies(topology, TWICE, 50)}


def unprivileged(appliance: Appliance, topology: Topology) -> dict[str, Any]:
    """An engine that may not raise its priority: what status tells of it, and whether it works."""
    wrapper = Path("/run/engine")
    wrapper.write_text(f'#!/bin/sh\nexec setpriv --bounding-set=-sys_nice {engine_client.BINARY} "$@"\n')
    wrapper.chmod(0o700)
    os.environ["LONGHAUL_WIRE"] = str(wrapper)
    appliance.down()
    appliance.up(topology)
    del os.environ["LONGHAUL_WIRE"]
    rtt_ns = least_rtt_ns(topology, QUICK)
    return {"refused": appliance.status().lanes[0].outbound.not_permitted, "quick_ns": rtt_ns}


def main() -> None:
    appliance = Appliance(NetlinkKernel(), Path("/run/state"))
    topology, others = loader.loads(FLOWS), loader.loads(OTHERS)
    found: dict[str, Any] = {"steps": len(appliance.up(topology)), "again": len(appliance.up(topology))}
    least_rtt_ns(topology, REST)  # ARP
    before = counters(appliance)
    found["rtt_ns"] = {
        "rest": least_rtt_ns(topology, REST),
        "quick": least_rtt_ns(topology, QUICK),
        "twice": least_rtt_ns(topology, TWICE),
        "lost": least_rtt_ns(topology, LOST, patience_s=0.5),
        "marked": least_rtt_ns(topology, REST, EF),
    }
    after = counters(appliance)
    found["counted"] = {n: after[n]["packets"] - before[n]["packets"] for n in after}
    found["lost"] = after["lost"]["drops_loss"]
    found["copies"] = copies(topology, TWICE)
    lane = topology.lane("a")
    longer = replace(lane.flows[0], outbound=replace(lane.flows[0].outbound, delay_ns=30 * MS))
    changes = [
        partial(appliance.set_lane, replace(lane, flows=(longer, *lane.flows[1:]))),
        partial(appliance.up, others),
        partial(appliance.set_lane, others.lane("a").with_rtt(4 * MS)),
        partial(appliance.up, topology),
    ]
    found["live"] = live(topology, changes)
    found["after_ns"] = least_rtt_ns(topology, QUICK)
    # No frame was refused for want of room or by the port, whatever changed.
    stats = engine_client.stats(ENGINE)["outbound"]
    found["ours"] = [part["limit"] + part["refused"] for part in (stats, *stats["flows"])]
    found["permitted"] = appliance.status().lanes[0].outbound.not_permitted
    found["killed"] = killed(appliance, topology)
    found["unprivileged"] = unprivileged(appliance, topology)
    appliance.down()
    found["left"] = left_behind()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
