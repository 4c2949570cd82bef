"""The pcapng file format, as far as a capture of Ethernet frames needs it. Pure: from values to blocks of bytes.

Source: draft-ietf-opsawg-pcapng. Times are in ns since 1970. All blocks are little-endian; the clock of the machine
that writes does not appear, so equal frames at equal times give equal files.
"""

from __future__ import annotations

import struct

from emulator.kernel.packet_tap import TappedFrame

_SECTION, _INTERFACE, _STATISTICS, _PACKET = 0x0A0D0D0A, 1, 5, 6
_MAGIC, _LENGTH_UNKNOWN, _ETHERNET = 0x1A2B3C4D, -1, 1
_END, _COMMENT, _APPLICATION = 0, 1, 4
_NAME, _DESCRIPTION, _RESOLUTION = 2, 3, 9
_NANOSECONDS = b"\x09"
_FLAGS, _FLAGS_IN, _FLAGS_OUT = 2, 1, 2
_RECEIVED, _DROPPED = 4, 5


def header(application: str, comment: str) -> bytes:
    """The section header, the first block of a file."""
    body = struct.pack("<IHHq", _MAGIC, 1, 0, _LENGTH_UNKNOWN)
    return _block(_SECTION, body + _options((_COMMENT, comment.encode()), (_APPLICATION, application.encode())))


def interface(name: str, description: str, snap_bytes: int) -> bytes:
    """The block of an Ethernet port, which follows the header; `snap_bytes` 0 means that frames are whole."""
    options = ((_NAME, name.encode()), (_DESCRIPTION, description.encode()), (_RESOLUTION, _NANOSECONDS))
    return _block(_INTERFACE, struct.pack("<HHI", _ETHERNET, 0, snap_bytes) + _options(*options))


def packet(frame: TappedFrame) -> bytes:
    """One frame of the file's only interface."""
    flags = struct.pack("<I", _FLAGS_OUT if frame.sent else _FLAGS_IN)
    times = (frame.at_ns >> 32, frame.at_ns & 0xFFFFFFFF)
    body = struct.pack("<IIIII", 0, *times, len(frame.data), frame.length) + _padded(frame.data)
    return _block(_PACKET, body + _options((_FLAGS, flags)))


def statistics(at_ns: int, received: int, dropped: int) -> bytes:
    """The last block: how many frames the port had, and how many of them the kernel did not pass on to the capture."""
    body = struct.pack("<III", 0, at_ns >> 32, at_ns & 0xFFFFFFFF)
    counts = ((_RECEIVED, struct.pack("<Q", received)), (_DROPPED, struct.pack("<Q", dropped)))
    return _block(_STATISTICS, body + _options(*counts))


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _options(*pairs: tuple[int, bytes]) -> bytes:
    found = b"".join(struct.pack("<HH", code, len(value)) + _padded(value) for code, value in pairs)
    return found + struct.pack("<HH", _END, 0)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
