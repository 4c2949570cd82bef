"""Traffic between the hosts of a topology, in real time: what arrives, in which order, and when."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from emulator.hosts.tools import process
from emulator.kernel import netns
from emulator.model.topology import Topology
from support.waiting import PATIENCE_S

PORT, DEADLINE_S = 7000, PATIENCE_S
BUSY_S = 60.0
"""How long the least of many round trips is looked for: a machine may be busy for seconds."""
S = 10**9
SO_RCVBUFFORCE, SOL_PACKET, PACKET_AUXDATA, ETH_P_ALL = 33, 263, 8, 3


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
            if kind == socket.SOCK_DGRAM:
                # A reader that gets no processor for a while must find all that came.
                found[-1].setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        yield found


@contextmanager
def punctual() -> Iterator[None]:
    """This thread, but none that it starts, runs ahead of those of ordinary priority: what it measures is not late by
    them. Where that is not permitted it waits as they do."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def round_trips(topology: Topology, one: str, other: str, enough_ns: int) -> int:
    """The least RTT of datagrams from one host to the other and back, in ns: until one is enough, or for BUSY_S."""
    with sockets(one, other, socket.SOCK_DGRAM) as (here, there):
        there.bind(("", PORT))
        here.connect((str(topology.address(other).ip), PORT))

        def echo() -> None:
            with punctual():
                while (data := there.recvfrom(100))[0] != b"last":
                    there.sendto(*data)

        thread = threading.Thread(target=echo)
        thread.start()
        with punctual():
            least, end = DEADLINE_S * S, time.monotonic() + BUSY_S
            while least > enough_ns and time.monotonic() < end:
                sent = time.monotonic_ns()
                here.send(b"more")
                here.recv(100)
                least = min(least, time.monotonic_ns() - sent)
        here.send(b"last")
        thread.join()
    return round(least)


def numbered(topology: Topology, changes: list[Callable[[], None]]) -> dict[str, Any]:
    """A numbered stream of datagrams of 1200 bytes, hub to california, while the lane changes: 500 before each change,
    as many as go while it is made, and 500 afterwards."""
    seen, sent = list[int](), list[int]()
    with sockets("hub", "california", socket.SOCK_DGRAM) as (here, there):
        there.bind(("", PORT))
        here.connect((str(topology.address("california").ip), PORT))

        def receive() -> None:
            with punctual():
                while there.recv(2000).split()[0] == str(len(seen)).encode():
                    seen.append(time.monotonic_ns())

        def send(count: int) -> None:
            for _ in range(count):
                sent.append(time.monotonic_ns())
                here.send(f"{len(sent) - 1} ".encode().ljust(1200))
                time.sleep(0.0005)

        receiver = threading.Thread(target=receive)
        receiver.start()
        for change in changes:
            send(500)
            changing = threading.Thread(target=change)
            changing.start()
            while changing.is_alive():
                send(1)
        send(500)
        here.send(b"last")
        receiver.join()
    return {"sent": len(sent), "in_order": len(seen), "least_ns": min(b - a for a, b in zip(sent, seen, strict=False))}


def patterned(topology: Topology, size: int) -> dict[str, Any]:
    """`size` bytes over TCP from the hub to california, and whether they came as they were sent."""
    block, sent, came = hashlib.shake_256(b"longhaul").digest(1_000_003), hashlib.sha256(), hashlib.sha256()
    with sockets("hub", "california", socket.SOCK_STREAM) as (here, there):
        there.bind(("", PORT))
        there.listen()
        here.connect((str(topology.address("california").ip), PORT))
        into, _ = there.accept()

        def send() -> None:
            for at in range(0, size, len(block)):
                part = block[: size - at]
                sent.update(part)
                here.sendall(part)
            here.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=send)
        thread.start()
        with into:
            into.settimeout(DEADLINE_S)
            while part := into.recv(1 << 20):
                came.update(part)
        thread.join()
    return {"same": came.digest() == sent.digest()}


def kinds_of_frames(topology: Topology) -> dict[str, Any]:
    """Datagrams of full 9000 bytes and streams in super-frames, over IPv4 and IPv6; each arrives as it was."""
    for host, suffix in (("hub", 1), ("far", 2)):
        with netns.inside(f"lh-{host}"):
            Path("/proc/sys/net/ipv6/conf/eth0/disable_ipv6").write_text("0")
        for words in (f"address replace fd00::{suffix}/64 dev eth0 nodad",):
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
