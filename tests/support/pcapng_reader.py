"""Reads pcapng files by the specification, independently of the product's writer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ReadFrame:
    at_ns: int
    inbound: bool
    data: bytes
    length: int


@dataclass(frozen=True)
class ReadFile:
    """The frames, the options of section header and interface by their codes, and the counts of the last block."""

    frames: list[ReadFrame]
    section: dict[int, bytes]
    interface: dict[int, bytes]
    snap_bytes: int
    received: int
    dropped: int


def options(body: bytes) -> dict[int, bytes]:
    found = {}
    while body:
        code, length = struct.unpack("<HH", body[:4])
        if code == 0:
            assert (length, len(body)) == (0, 4), "the options end with the block"
            break
        found[code] = body[4 : 4 + length]
        body = body[4 + length + -length % 4 :]
    return found


def blocks(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        kind, length = struct.unpack("<II", data[:8])
        assert length % 4 == 0
        assert struct.unpack("<I", data[length - 4 : length]) == (length,), "the length stands at both ends"
        found.append((kind, data[8 : length - 4]))
        data = data[length:]
    return found


def read(path: Path) -> ReadFile:
    (kind, section), (second, interface), *packets, (last, counts) = blocks(path.read_bytes())
    assert (kind, second, last) == (0x0A0D0D0A, 1, 5)
    assert struct.unpack("<IHHq", section[:16]) == (0x1A2B3C4D, 1, 0, -1)
    link, _, snap_bytes = struct.unpack("<HHI", interface[:8])
    assert link == 1, "Ethernet"
    counted = options(counts[12:])
    return ReadFile(
        [_frame(kind, body) for kind, body in packets],
        options(section[16:]),
        options(interface[8:]),
        snap_bytes,
        *(struct.unpack("<Q", counted[code])[0] for code in (4, 5)),
    )


def _frame(kind: int, body: bytes) -> ReadFrame:
    assert kind == 6
    interface, high, low, kept, length = struct.unpack("<IIIII", body[:20])
    assert interface == 0
    flags = struct.unpack("<I", options(body[20 + kept + -kept % 4 :])[2])[0]
    assert flags in (1, 2)
    return ReadFrame(high << 32 | low, flags == 1, body[20 : 20 + kept], length)
