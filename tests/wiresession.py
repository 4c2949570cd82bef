"""One session of the wire engine in real time, in namespaces of its own: what it finds goes to stdout as JSON.

`tests/test_wire_live.py` starts it (unshare: network, mounts, processes) and judges what it found. Nothing here judges
by how long something took: on a loaded machine all is late, and how late the machine's own timers are is measured too.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

from emulator import topologyfile
from emulator.appliance import Appliance
from emulator.kernel import Kernel, netns, wire
from emulator.kernel.netlink import NetlinkKernel
from emulator.measure import process
from emulator.model import Impairment, Topology

ROOT = Path(__file__).parent.parent
STAR = """
name: star
hub: hub
defaults: {rate: 1Gbit}
lanes: {california: {rtt: 32ms}, london: {rtt: 80ms}, japan: {rtt: 346ms}}
"""
JUMBO = "{name: jumbo, hub: hub, defaults: {mtu: 9000, rate: 1Gbit}, lanes: {far: {rtt: 4ms}}}"
PORT, DEADLINE_S, MS = 7000, 60.0, 10**6
SO_RCVBUFFORCE, SOL_PACKET, PACKET_AUXDATA, ETH_P_ALL = 33, 263, 8, 3
PATTERN_BYTES, LOSSY_BYTES = 50_000_000, 5_000_000


@contextmanager
def sockets(one: str, other: str, kind: int, family: int = socket.AF_INET) -> Iterator[list[socket.socket]]:
    """A socket in each of two hosts."""
    with ExitStack() as stack:
        found = []
        for host in (one, other):
            with netns.inside(f"lh-{host}"):
                found.append(stack.enter_context(socket.socket(family, kind)))
            found[-1].settimeout(DEADLINE_S)
            found[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield found


def timer_lateness_ns() -> int:
    """By how much the machine's own timers are late just now: the median of fifty sleeps."""
    late = []
    for _ in range(50):
        asked = time.monotonic_ns() + MS
        time.sleep(0.001)
        late.append(time.monotonic_ns() - asked)
    return sorted(late)[25]


def round_trips(topology: Topology, one: str, other: str, enough_ns: int = 0, most: int = 40) -> int:
    """The least RTT of datagrams from one host to the other and back, in ns: of `most`, or until one is enough."""
    with sockets(one, other, socket.SOCK_DGRAM) as (here, there):
        there.bind(("", PORT))
        here.connect((str(topology.address(other).ip), PORT))

        def echo() -> None:
            while data := there.recvfrom(100):
                there.sendto(*data)
                if data[0] == b"last":
                    return

        thread = threading.Thread(target=echo)
        thread.start()
        least = None
        for number in range(most + 1):
            last = number == most or (least is not None and least <= enough_ns)
            sent = time.monotonic_ns()
            here.send(b"last" if last else b"more")
            here.recv(100)
            rtt = time.monotonic_ns() - sent
            # The first waits for ARP.
            least = rtt if least is None or number == 1 else min(least, rtt)
            if last:
                break
        thread.join()
    assert least is not None
    return least


def matrix(topology: Topology) -> list[dict[str, Any]]:
    """The least RTT of every pair of hosts beside the one asked for."""
    rows = []
    for one, other in combinations([topology.hub, *topology.sites], 2):
        asked = topology.rtt_ns(one, other)
        rows.append(
            {"pair": f"{one} {other}", "asked_ns": asked, "min_ns": round_trips(topology, one, other, asked + MS)}
        )
    return rows


def numbered(topology: Topology, change: Callable[[], None]) -> dict[str, Any]:
    """A numbered stream of 2000 datagrams of 1200 bytes, hub to california, while the lane changes twice."""
    count, seen = 2000, []
    with sockets("hub", "california", socket.SOCK_DGRAM) as (here, there):
        there.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        there.bind(("", PORT))
        here.connect((str(topology.address("california").ip), PORT))

        def receive() -> None:
            while len(seen) < count and int(there.recv(2000).split()[0]) == len(seen):
                seen.append(time.monotonic_ns())

        thread = threading.Thread(target=receive)
        thread.start()
        sent, changes = [], []
        for number in range(count):
            if number in (700, 1400):
                changes.append(threading.Thread(target=change))
                changes[-1].start()
            sent.append(time.monotonic_ns())
            here.send(f"{number} ".encode().ljust(1200))
            time.sleep(0.0005)
        for one in (thread, *changes):
            one.join()
    return {"sent": count, "in_order": len(seen), "least_ns": min(b - a for a, b in zip(sent, seen, strict=False))}


def patterned(topology: Topology, size: int) -> dict[str, Any]:
    """`size` bytes over TCP from the hub to california, and whether they came as they were sent."""
    block = hashlib.shake_256(b"longhaul").digest(1_000_003)
    data = (block * (size // len(block) + 1))[:size]
    with sockets("hub", "california", socket.SOCK_STREAM) as (here, there):
        there.bind(("", PORT))
        there.listen()
        here.connect((str(topology.address("california").ip), PORT))
        into, _ = there.accept()

        def send() -> None:
            here.sendall(data)
            here.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=send)
        thread.start()
        digest = hashlib.sha256()
        with into:
            into.settimeout(DEADLINE_S)
            while part := into.recv(1 << 20):
                digest.update(part)
        thread.join()
    return {"same": digest.digest() == hashlib.sha256(data).digest()}


def lossy(appliance: Appliance) -> dict[str, Any]:
    """TCP in super-frames over a lane that loses, duplicates nothing and cuts the super-frames that a loss hits."""
    topology = appliance.topology()
    assert topology
    lane = topology.lane("california")
    hurt = Impairment(2 * MS, loss_p32=2**32 // 100)
    appliance.set_lane(type(lane)(lane.name, hurt, Impairment(2 * MS)))
    before = wire.stats("lh-california")["outbound"]
    result = patterned(topology, LOSSY_BYTES)
    after = wire.stats("lh-california")["outbound"]
    return result | {key: after[key] - before[key] for key in ("lost", "split", "limit", "refused")}


def kinds_of_frames(topology: Topology) -> dict[str, Any]:
    """Datagrams of full 9000 bytes and streams in super-frames, over IPv4 and IPv6; each arrives as it was."""
    for host, suffix in (("hub", 1), ("far", 2)):
        with netns.inside(f"lh-{host}"):
            Path("/proc/sys/net/ipv6/conf/eth0/disable_ipv6").write_text("0")
        for words in (f"address add fd00::{suffix}/64 dev eth0 nodad",):
            process.run(["ip", *words.split()], DEADLINE_S, f"lh-{host}").checked()
    found = {}
    for name, family, address, size in (
        ("jumbo", socket.AF_INET, str(topology.address("far").ip), 8972),
        ("ipv6", socket.AF_INET6, "fd00::2", 8952),
    ):
        with sockets("hub", "far", socket.SOCK_DGRAM, family) as (here, there):
            there.bind(("", PORT))
            here.connect((address, PORT))
            here.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
            data = os.urandom(size)
            here.send(data)
            found[name] = there.recv(10_000) == data
        with sockets("hub", "far", socket.SOCK_STREAM, family) as (here, there):
            there.bind(("", PORT))
            there.listen()
            here.connect((address, PORT))
            into, _ = there.accept()
            with into:
                thread = threading.Thread(target=here.sendall, args=(data * 100,))
                thread.start()
                got = b""
                while len(got) < size * 100:
                    got += into.recv(1 << 20)
                thread.join()
            found[f"{name} in super-frames"] = got == data * 100
    return found


def tagged() -> dict[str, Any]:
    """A frame in VLAN 2007 of priority 3: what arrives, and the tag that the receiving kernel took off it."""
    with sockets("hub", "far", socket.SOCK_RAW, socket.AF_PACKET) as (here, there):
        there.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        there.bind(("eth0", ETH_P_ALL))
        here.bind(("eth0", 0))
        addresses = b"\xff" * 6 + b"\x02\0\0\0\0\x01"
        here.send(addresses + struct.pack("!HHH", 0x8100, 3 << 13 | 2007, 0x88B5) + b"longhaul".ljust(1500))
        while True:
            data, extra, *_ = there.recvmsg(10_000, 100)
            if data[12:14] == b"\x88\xb5":
                break
    status, *_, tci, tpid = struct.unpack("3I4H", extra[0][2])
    return {"tci": tci, "tpid": tpid, "same": data[14:] == b"longhaul".ljust(1500), "valid": bool(status & 1 << 4)}


def until(true: Callable[[], bool]) -> bool:
    """Whether it becomes true before the deadline."""
    end = time.monotonic() + DEADLINE_S
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def kill(bridge: str) -> None:
    """kill -9, and wait until it is dead."""
    process_fd = wire.watch(bridge)
    signal.pidfd_send_signal(process_fd, signal.SIGKILL)
    ended = select.poll()
    ended.register(process_fd, select.POLLIN)
    ended.poll(DEADLINE_S * 1000)
    os.close(process_fd)


def killed(appliance: Appliance, topology: Topology) -> dict[str, Any]:
    """kill -9 of an engine: seen, and put right by the next up."""
    kill("lh-california")
    drift = [str(step.op).split()[0] + " " + step.why for step in appliance.status().drift]
    appliance.up(topology)
    return {
        "drift": drift,
        "after_ns": round_trips(topology, "hub", "california", 33 * MS),
        "left": appliance.status().drift,
    }


def passing(kernel: Kernel, appliance: Appliance, topology: Topology) -> dict[str, Any]:
    """kill -9 where the topology says `pass`: the bridge opens by itself, and closes again with the next up."""
    appliance.up(topology)
    kill("lh-far")
    opened = until(lambda: kernel.observe().bridges["lh-far"].up)
    unimpaired = round_trips(topology, "hub", "far", 2 * MS)
    appliance.up(topology)
    return {"opened": opened, "unimpaired_ns": unimpaired, "after_ns": round_trips(topology, "hub", "far", 5 * MS)}


def left_behind() -> dict[str, list[str]]:
    """What of ours is there: engines, sockets, namespaces, interfaces."""
    engines = [p.parent.name for p in Path("/proc").glob("[0-9]*/comm") if p.read_text().strip() == "longhaul-wire"]
    alive = [pid for pid in engines if "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]]
    links = [name for _, name in socket.if_nameindex() if name.startswith("lh")]
    sockets = [p.name for p in wire.RUN.iterdir()] if wire.RUN.exists() else []
    return {"engines": alive, "sockets": sockets, "namespaces": sorted(netns.names()), "links": links}


def refused(appliance: Appliance) -> str:
    """An engine told to hear an interface that is not there, by hand."""
    text = json.dumps({"on_failure": "cut", "hub": "no-port", "site": "lo", "bridge": "lo"} | wire_directions())
    done = subprocess.run([wire.BINARY, "/run/x.sock"], input=text, text=True, capture_output=True, check=False)
    return f"{done.returncode} {done.stderr.strip()}"


def wire_directions() -> dict[str, Any]:
    one = {"delay_ns": 1, "limit": 1, "room_bytes": 1}
    return {"outbound": one, "inbound": one}


def noise() -> bool:
    """Whether the control socket still answers after requests that make no sense, and halves of others."""
    path = str(wire._path("lh-california"))
    for text in (
        b"",
        b"\n",
        b"{",
        b"\xff\n",
        b'{"op":"set"}\n',
        b"[" * 5000 + b"\n",
        b'{"op":"set","outbound":{"limit":-1}}\n',
    ):
        with socket.socket(socket.AF_UNIX) as there:
            there.connect(path)
            there.sendall(text)
            there.shutdown(socket.SHUT_WR)
            while there.recv(1000):
                pass
    return wire.observe()["lh-california"].running and Path(path).stat().st_mode & 0o777 == 0o600


def main() -> None:
    kernel = NetlinkKernel()
    appliance = Appliance(kernel, Path("/run/state"))
    star, jumbo = topologyfile.loads(STAR), topologyfile.loads(JUMBO)
    found: dict[str, Any] = {"steps": len(appliance.up(star)), "again": len(appliance.up(star))}
    found["datapath"] = appliance.status().datapath
    found["lateness_ns"] = timer_lateness_ns()
    found["matrix"] = matrix(star)
    found["lateness_ns"] = max(found["lateness_ns"], timer_lateness_ns())
    rtts = iter((60, 20))
    lane = star.lane("california")

    def change() -> None:
        appliance.set_lane(lane.with_rtt(next(rtts) * MS))

    found["live"] = numbered(star, change)
    found["noise"] = noise()
    found["pattern"] = patterned(star, PATTERN_BYTES)
    # The last of what TCP sent twice is still on its way.
    until(lambda: wire.stats("lh-california")["outbound"]["queued"] == 0)
    found["stats"] = wire.stats("lh-california")
    found["lossy"] = lossy(appliance)
    appliance.up(star)
    found["killed"] = killed(appliance, star)
    found["refused"] = refused(appliance)
    appliance.up(jumbo)
    found["frames"] = kinds_of_frames(jumbo)
    found["tagged"] = tagged()
    found["passing"] = passing(
        kernel, appliance, topologyfile.loads(JUMBO.replace("hub: hub", "hub: hub, on_failure: pass"))
    )
    kill("lh-far")
    appliance.down()
    found["left"] = left_behind()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
