"""A constant rate of super-frames, both ways at once, with little work: the kernel sends them out of a ring of ours.

A sender that copied each frame would take as much of the machine as the engine that it is to test. The frames are TCP
segments of 44 packets for a host that is not there, so that whoever they reach only counts them.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from emulator.experiment import engine_lateness
from emulator.kernel import engine_client, netns

SOL_PACKET, PACKET_VERSION, PACKET_TX_RING, PACKET_VNET_HDR, PACKET_QDISC_BYPASS = 263, 10, 13, 15, 20
TPACKET_V2, SEND_REQUEST, HEADER = 1, b"\1\0\0\0", 32
SLOTS, SLOT = 64, 128 << 10
PACKETS, MSS, HEADERS, ON_THE_WIRE = 44, 1448, 54, 24
"""Each packet has 24 bytes on the wire that no one sees: preamble, checksum, gap."""

BITS = PACKETS * (MSS + HEADERS + ON_THE_WIRE) * 8
LATE_S, NAP_S, BURST, LOST_S = 0.01, 0.0002, 16, 10


def _super_frame() -> bytes:
    """A virtio_net header (checksum and segmentation left to whoever needs them), Ethernet, IPv4, TCP."""
    vnet = struct.pack("<BBHHHH", 1, 1, HEADERS, MSS, 34, 16)
    ethernet = b"\x02\0\0\0\0\x99" + b"\x02\0\0\0\0\x98" + b"\x08\0"
    addresses = socket.inet_aton("10.255.0.1"), socket.inet_aton("10.255.0.2")
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + PACKETS * MSS, 0, 0x4000, 64, 6, 0, *addresses)
    tcp = struct.pack("!HHIIBBHHH", 7000, 7000, 1, 1, 0x50, 0x10, 65535, 0, 0)
    return vnet + ethernet + ip + tcp + bytes(PACKETS * MSS)


class Sender:
    """Speaks through a host's eth0: a ring of slots, each with struct tpacket2_hdr and the frame in it already."""

    def __init__(self, host: str, stack: ExitStack) -> None:
        with netns.inside(f"lh-{host}"):
            self._socket = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        for option, value in ((PACKET_VERSION, TPACKET_V2), (PACKET_VNET_HDR, 1), (PACKET_QDISC_BYPASS, 1)):
            self._socket.setsockopt(SOL_PACKET, option, value)
        self._socket.setsockopt(SOL_PACKET, PACKET_TX_RING, struct.pack("4I", SLOT, SLOTS, SLOT, SLOTS))
        self._ring = stack.enter_context(mmap.mmap(self._socket.fileno(), SLOT * SLOTS))
        self._socket.bind(("eth0", 0))
        frame = _super_frame()
        for at in range(0, SLOT * SLOTS, SLOT):
            self._ring[at : at + 12] = struct.pack("3I", 0, len(frame), len(frame))
            self._ring[at + HEADER : at + HEADER + len(frame)] = frame
        self._next = 0

    def send(self, count: int) -> int:
        """Sends so many super-frames, or as many as slots are free; how many."""
        for done in range(count):
            at = self._next * SLOT
            if self._ring[at]:
                count = done
                break
            self._ring[at : at + 4] = SEND_REQUEST
            self._next = (self._next + 1) % SLOTS
        if count:
            self._socket.send(b"")
        return count


def both_ways(one: str, other: str, bps: int, more: Callable[[float], bool]) -> tuple[list[int], float]:
    """Sends from both hosts at a constant rate while `more` of the seconds so far; how many super-frames each sent,
    and in how many seconds.

    It goes before all others, as a NIC would; what it was kept from sending for more than 10 ms it leaves out.
    """
    with ExitStack() as stack:
        stack.callback(os.sched_setscheduler, 0, os.SCHED_OTHER, os.sched_param(0))
        ends, sent, left_out, start = [Sender(host, stack) for host in (one, other)], [0, 0], 0, time.monotonic()
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        while more(now := time.monotonic() - start):
            due = int(now * bps / BITS) - left_out
            behind = due - min(sent)
            if behind * BITS > LATE_S * bps:
                left_out += behind
                continue
            if not behind:
                time.sleep(NAP_S)
            for at, end in enumerate(ends):
                sent[at] += end.send(min(due - sent[at], BURST))
        return sent, time.monotonic() - start


def lossless(bridge: str, one: str, other: str, bps: int, more: Callable[[float], bool]) -> dict[str, Any]:
    """What of a constant rate each way through a lane arrived: the rate, frames sent, lost and counted as dropped, how
    late the engine sent them, and the host's steal.

    A frame is lost when nothing more has arrived for ten seconds: it may wait in the kernel, where no one counts it.
    What the engine (`ours`) or the kernel (`backlog`) counted as dropped is not waited for. `unseen` are frames that
    left the engine and that no host has.
    """
    before, passed, steal, full = engine_client.stats(bridge), _heard(one, other), _steal_s(), _full_backlogs()
    sent, took_s = both_ways(one, other, bps, more)
    lost, ours, backlog, since = sum(sent), 0, 0, time.monotonic()
    while lost > ours + backlog and time.monotonic() - since < LOST_S:
        time.sleep(0.05)
        after = engine_client.stats(bridge)
        ours = sum(after[way][key] - before[way][key] for way in after for key in ("limit", "refused"))
        backlog = _full_backlogs() - full
        missing = sum(sent) - sum(after[way]["sent"] - before[way]["sent"] for way in after)
        if missing != lost:
            lost, since = missing, time.monotonic()
    late = {way: _lateness(before[way], after[way]) for way in after}
    return {
        "gbit": sum(sent) * BITS / took_s / 2e9,
        "sent": sum(sent),
        "lost": lost,
        "unseen": max(0, sum(sent) - lost - (_heard(one, other) - passed)),
        "ours": ours,
        "backlog": backlog,
        "timed": sum(sum(counts.values()) for counts in late.values()),
        "late_p99_ns": max(engine_lateness.quantile(counts, 99) for counts in late.values()),
        "steal": (_steal_s() - steal) / took_s,
    }


def _lateness(before: dict[str, Any], after: dict[str, Any]) -> dict[int, int]:
    """How many frames of a direction the engine sent meanwhile, by the upper end of their lateness in ns."""
    earlier = dict(before["lateness_ns"])
    return {above: count - earlier.get(above, 0) for above, count in after["lateness_ns"]}


def _heard(*hosts: str) -> int:
    """How many frames have come in at these hosts."""
    count = 0
    for host in hosts:
        with netns.inside(f"lh-{host}"):
            lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        count += next(int(line.split()[2]) for line in lines if line.strip().startswith("eth0:"))
    return count


def _steal_s() -> float:
    """Seconds that this machine's host has taken from its processors."""
    return int(Path("/proc/stat").read_text().split()[8]) / os.sysconf("SC_CLK_TCK")


def _full_backlogs() -> int:
    """Frames that a processor had no room for before anyone heard them (softnet_data.dropped, net/core/dev.c)."""
    return sum(int(line.split()[1], 16) for line in Path("/proc/net/softnet_stat").read_text().splitlines())
