"""One session of the wire engine with a tunnel between two hosts, in namespaces of its own: the findings go to stdout.

`tests/engine/test_tunnels.py` starts it and judges what it found.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.kernel import engine_client, ethtool, netns
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.topology import Topology
from support.engine_session import left_behind
from support.host_traffic import sockets

TUNNEL = "{name: tunnel, hub: hub, datapath: wire, lanes: {far: {rtt: 4ms}}}"
INNER = {"hub": "10.250.0.1", "far": "10.250.0.2"}
KINDS = {
    "vxlan": "type vxlan id 5 dstport 4789 local {here} remote {there}",
    "gre": "type gre local {here} remote {there}",
    "ipip": "type ipip local {here} remote {there}",
}
SIZE, PORT = 3_000_000, 7000


def ip(host: str, arguments: str) -> bool:
    """One command of ip in a host; whether the kernel can do it."""
    done = subprocess.run(["ip", "-n", f"lh-{host}", *arguments.split()], capture_output=True, text=True, check=False)
    return done.returncode == 0


def dug(topology: Topology, kind: str) -> bool:
    """A tunnel of this kind between the hub and the site; whether the kernel knows that kind."""
    for here, there in (("hub", "far"), ("far", "hub")):
        ends = {"here": str(topology.address(here).ip), "there": str(topology.address(there).ip)}
        if not ip(here, f"link add tunnel {KINDS[kind].format(**ends)}"):
            return False
        assert ip(here, f"addr add {INNER[here]}/24 dev tunnel") and ip(here, "link set tunnel up")
    return True


def transferred() -> int:
    """How many bytes of SIZE came through the tunnel over TCP."""
    with sockets("hub", "far", socket.SOCK_STREAM) as (here, there):
        there.bind((INNER["far"], PORT))
        there.listen()
        sender = threading.Thread(target=sent, args=(here,))
        sender.start()
        connection, _ = there.accept()
        with connection:
            came = 0
            while part := connection.recv(1 << 20):
                came += len(part)
        sender.join()
    return came


def sent(here: socket.socket) -> None:
    """Sends SIZE bytes to the site's end of the tunnel."""
    here.connect((INNER["far"], PORT))
    here.sendall(bytes(SIZE))
    here.shutdown(socket.SHUT_WR)


def through(topology: Topology, kind: str) -> dict[str, Any] | None:
    """What came through a tunnel, and what the engine counted meanwhile; None where the kernel has no such tunnels."""
    if not dug(topology, kind):
        return None
    before = engine_client.stats("lh-far")["outbound"]
    came = transferred()
    after = engine_client.stats("lh-far")["outbound"]
    for host in INNER:
        ip(host, "link del tunnel")
    return {"came": came} | {key: after[key] - before[key] for key in ("received", "refused", "limit")}


def main() -> None:
    appliance, topology = Appliance(NetlinkKernel(), Path("/run/state")), loader.loads(TUNNEL)
    appliance.up(topology)
    found: dict[str, Any] = {"on": {}}
    for host in INNER:
        with netns.inside(f"lh-{host}"):
            found["on"][host] = sorted(ethtool.offloads("eth0", ethtool.TUNNEL_SEGMENTATION))
    found |= {kind: through(topology, kind) for kind in KINDS}
    appliance.down()
    found["left"] = left_behind()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
