"""A numbered stream of frames through lanes: what was sent, and every frame that arrived.

Frames are sent and received whole (packet sockets), so that any flipped bit is detected, and with the kernel's own
receive time. One loop sends for all flows in the order of their times. Arrivals wait in the receivers' buffers until
the end, so that only the lanes affect the result.
"""

from __future__ import annotations

import heapq
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from msgspec import Struct

from emulator.hosts.tools import probe_frame
from emulator.hosts.tools.probe_frame import PLAIN, FrameTemplate
from emulator.hosts.tools.sample_packet import Packet
from emulator.kernel import netns
from emulator.kernel.packet_socket import ETH_P_ALL, packet_socket, stamp_ns
from emulator.model.device_names import namespace_of
from emulator.model.topology import Topology
from emulator.plan.state import HOST_PORT

SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SMALLEST = probe_frame.smallest_bytes(PLAIN)
"""The smallest plain frame, in bytes."""

CARRIER_NS = 2_000_000_000
"""The wait before the first frame: a port that has just come up may pass nothing for a second (link watch)."""

RECEIVE_BUFFER_BYTES = 1 << 29


class FrameFlow(Struct, frozen=True):
    """`count` frames of `frame_bytes` (with Ethernet header) from one host to another, one every `every_ns`.

    The frames look like `packet`, `outbound` from its hub's end to its site's; they are larger when it does not fit.
    """

    sender: str
    receiver: str
    count: int
    every_ns: int
    frame_bytes: int = SMALLEST
    ect: bool = False
    packet: Packet = PLAIN
    outbound: bool = True

    def forms(self, macs: tuple[bytes, bytes]) -> tuple[FrameTemplate, FrameTemplate]:
        """The frames as sent between these addresses, and as they arrive when they are marked."""
        size = max(self.frame_bytes, probe_frame.smallest_bytes(self.packet))
        sent, marked = (
            FrameTemplate(self.packet, self.outbound, macs, size, bits)
            for bits in (probe_frame.ECT0 if self.ect else 0, probe_frame.CE)
        )
        return sent, marked


class Arrival(Struct, frozen=True):
    """One frame that arrived: `flipped` bits differ from what was sent; `marked` by ECN."""

    number: int
    sent_ns: int
    received_ns: int
    flipped: int
    marked: bool


class Stream:
    """The sockets of some flows between the virtual hosts of an active topology. A context manager."""

    def __init__(self, topology: Topology, flows: Sequence[FrameFlow]) -> None:
        self.topology, self.flows = topology, tuple(flows)
        self._stack = ExitStack()

    def __enter__(self) -> Stream:
        hosts = {host for flow in self.flows for host in (flow.sender, flow.receiver)}
        self._sockets = {host: self._open(host) for host in sorted(hosts)}
        macs = {host: one.getsockname()[4] for host, one in self._sockets.items()}
        self._forms = [flow.forms((macs[flow.sender], macs[flow.receiver])) for flow in self.flows]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self, host: str) -> socket.socket:
        with netns.inside(namespace_of(host)):
            one = self._stack.enter_context(packet_socket(RECEIVE_BUFFER_BYTES))
        one.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        one.bind((HOST_PORT, ETH_P_ALL))
        return one

    def run(self, settle_ns: int, sleep: Callable[[float], None] = time.sleep) -> list[list[Arrival]]:
        """Send everything, wait `settle_ns` after the last frame, and return each flow's arrivals in order."""
        begin_ns = time.clock_gettime_ns(time.CLOCK_REALTIME) + CARRIER_NS
        due = [(begin_ns + i * 1000, i, 0) for i, flow in enumerate(self.flows) if flow.count]
        heapq.heapify(due)
        while due:
            at_ns, index, number = heapq.heappop(due)
            now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
            if at_ns > now_ns:
                sleep((at_ns - now_ns) / 1e9)
                now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
            flow = self.flows[index]
            form = self._forms[index][0]
            self._sockets[flow.sender].send(form.tagged(form.frame(index, number, now_ns)))
            if number + 1 < flow.count:
                heapq.heappush(due, (at_ns + flow.every_ns, index, number + 1))
        sleep(settle_ns / 1e9)
        return self._collect()

    def _collect(self) -> list[list[Arrival]]:
        found: list[list[Arrival]] = [[] for _ in self.flows]
        for host, one in self._sockets.items():
            for frame, received_ns in _received(one):
                record = probe_frame.record(frame)
                if record and record[0] < len(self.flows) and self.flows[record[0]].receiver == host:
                    found[record[0]].append(self._arrival(frame, record, received_ns))
        return found

    def _arrival(self, frame: bytes, record: tuple[int, int, int], received_ns: int) -> Arrival:
        index, number, sent_ns = record
        whole, marked = (form.frame(*record) for form in self._forms[index])
        if frame == whole:
            return Arrival(number, sent_ns, received_ns, 0, False)
        if self.flows[index].ect and frame == marked:
            return Arrival(number, sent_ns, received_ns, 0, True)
        return Arrival(number, sent_ns, received_ns, probe_frame.bits_apart(frame, whole), False)


def _received(one: socket.socket) -> Iterator[tuple[bytes, int]]:
    while True:
        try:
            frame, control, _, _ = one.recvmsg(65536, 64)
        except BlockingIOError:
            return
        yield frame, stamp_ns(control)
