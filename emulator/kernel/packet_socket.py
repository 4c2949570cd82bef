"""Packet sockets that receive whole frames with the kernel's own time of each (packet(7), socket(7))."""

from __future__ import annotations

import socket
import struct

ETH_P_ALL = 3
SO_TIMESTAMPNS, SO_RCVBUFFORCE = 35, 33


def packet_socket(queue_bytes: int) -> socket.socket:
    """A socket that receives nothing until it is bound to (port, ETH_P_ALL): then the first frame has its time, too.

    `queue_bytes` of frames may wait for the reader. Reading never blocks. Raises OSError without privilege.
    """
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    try:
        one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, queue_bytes)
        one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one


def stamp_ns(control: list[tuple[int, int, bytes]]) -> int:
    """When the kernel received a frame, in ns since 1970, from the control messages of recvmsg; 0 without a time."""
    for level, kind, value in control:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, ns = struct.unpack("=qq", value[:16])
            return int(seconds * 10**9 + ns)
    return 0
