"""Reads the frames that a port receives and sends, with the kernel's own time of each (packet(7))."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator

from msgspec import Struct

from emulator.kernel.packet_socket import ETH_P_ALL, packet_socket, stamp_ns

SOL_PACKET, PACKET_STATISTICS, PACKET_AUXDATA = 263, 6, 8
PACKET_OUTGOING = 4
VLAN_VALID, VLAN_TPID_VALID = 1 << 4, 1 << 6
"""TP_STATUS_VLAN_VALID and TP_STATUS_VLAN_TPID_VALID (include/uapi/linux/if_packet.h)."""
VLAN = 0x8100

QUEUE_BYTES = 64 << 20
"""The frames that may wait for the reader: 50 ms at 10 Gbit/s. They hold memory only while they wait."""
LONGEST_FRAME = 1 << 18
ADDRESSES_BYTES = 12
_AUXDATA = struct.Struct("=IIIHHHH")
_CONTROL_BYTES = 128


class TappedFrame(Struct, frozen=True):
    """One frame: its first bytes with the VLAN tag where it had one, its whole length, and whether the port sent it."""

    at_ns: int
    sent: bool
    data: bytes
    length: int


class PortDownError(Exception):
    """The port was set down or removed; frames may still wait, and come again when it is set up."""


class PacketTap:
    """All frames of one port from now on. Close it. Raises OSError when there is no such port, or without privilege.

    What the port sends is seen behind its queues, that is, with its delay. The wire engine sends past every tap.
    """

    def __init__(self, port: str, snap_bytes: int) -> None:
        self.port, self._most = port, snap_bytes or LONGEST_FRAME
        self._socket = packet_socket(QUEUE_BYTES)
        try:
            self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            # Bound last: the first frame has its time and its tag.
            self._socket.bind((port, ETH_P_ALL))
            self._index = socket.if_nametoindex(port)
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """For epoll and select."""
        return self._socket.fileno()

    def close(self) -> None:
        """Stop; frames that wait are lost."""
        self._socket.close()

    def frames(self) -> Iterator[TappedFrame]:
        """The frames that wait, oldest first. Raises PortDownError once each time that the port goes down."""
        while True:
            try:
                data, control, _, address = self._socket.recvmsg(self._most, _CONTROL_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENETDOWN:
                    raise
                raise PortDownError from None
            yield self._frame(data, control, sent=address[2] == PACKET_OUTGOING)

    def is_there(self) -> bool:
        """Whether the port still exists, up or down."""
        try:
            return socket.if_nametoindex(self.port) == self._index
        except OSError:
            return False

    def dropped(self) -> int:
        """How many frames found the queue full since the last call."""
        return int(struct.unpack("=II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1])

    def _frame(self, data: bytes, control: list[tuple[int, int, bytes]], *, sent: bool) -> TappedFrame:
        length = len(data)
        for level, kind, value in control:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, length, _, _, _, tag, protocol = _AUXDATA.unpack(value[: _AUXDATA.size])
                if status & VLAN_VALID:
                    tagged = struct.pack(">HH", protocol if status & VLAN_TPID_VALID else VLAN, tag)
                    data = data[:ADDRESSES_BYTES] + tagged + data[ADDRESSES_BYTES:]
                    length += 4
        return TappedFrame(stamp_ns(control), sent, data[: self._most], length)
