"""The driver's switches by ioctl (include/uapi/linux/ethtool.h): offloads by name, and who drives an interface."""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct
from functools import cache

SIOCETHTOOL = 0x8946
GDRVINFO, GSTRINGS, GSSET_INFO, GFEATURES, SFEATURES = 0x03, 0x1B, 0x37, 0x3A, 0x3B
SS_FEATURES = 4
STRING_BYTES = 32
BLOCK_BITS = 32

TUNNEL_SEGMENTATION = (
    "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "tx-gre-segmentation", "tx-gre-csum-segmentation",
    "tx-ipxip4-segmentation", "tx-ipxip6-segmentation",
)  # fmt: skip
"""What hands a tunnel's super-frames over whole. A packet socket calls such a frame plain TCP, and sends none
(virtio_net_hdr_from_skb knows no tunnels): where these are off, the sender's kernel cuts it."""


def offloads(name: str, wanted: tuple[str, ...]) -> frozenset[str]:
    """The features of `wanted` that are on, or that the driver turns on as soon as the hardware can. Raises OSError.

    Requested features count too: `ethtool -K` set them, and Longhaul must restore them.
    """
    features = _features(name)
    blocks = _blocks(name)
    return frozenset(f for f in wanted if f in features and _is_on(blocks, features[f]))


def set_offloads(name: str, values: dict[str, bool]) -> None:
    """Switch features; it ignores those that an interface does not know or cannot change. Raises OSError."""
    features, blocks = _features(name), _blocks(name)
    words = [[0, 0] for _ in blocks]
    for feature, on in values.items():
        place = features.get(feature)
        if place is None or _is_on(blocks, place) == on:
            continue
        block, bit = divmod(place, BLOCK_BITS)
        if blocks[block][0] >> bit & 1:
            words[block][0] |= 1 << bit
            words[block][1] |= on << bit
    body = struct.pack("=II", SFEATURES, len(words)) + b"".join(struct.pack("=II", *word) for word in words)
    if any(valid for valid, _ in words):
        _ioctl(name, body)


def driver(name: str) -> tuple[str, str]:
    """An interface's driver and bus address, "" without one (struct ethtool_drvinfo). Raises OSError."""
    answer = _ioctl(name, struct.pack("=I192x", GDRVINFO))
    texts = [answer[at : at + 32].split(b"\0")[0].decode(errors="replace") for at in (4, 100)]
    return texts[0], texts[1] if texts[1] != "N/A" else ""


def _is_on(blocks: list[tuple[int, int, int, int]], place: int) -> bool:
    _, requested, active, _ = blocks[place // BLOCK_BITS]
    return bool((requested | active) >> place % BLOCK_BITS & 1)


def _blocks(name: str) -> list[tuple[int, int, int, int]]:
    """Features in words of 32: (can be changed, asked for, on, never changes)."""
    size = -(-len(_features(name)) // BLOCK_BITS)
    answer = _ioctl(name, struct.pack("=II", GFEATURES, size) + bytes(16 * size))
    return [struct.unpack_from("=IIII", answer, 8 + 16 * block) for block in range(size)]


def _features(name: str) -> dict[str, int]:
    """The place of every feature; the same for all interfaces of a kernel."""
    return _feature_places() or _learn(name)


@cache
def _feature_places() -> dict[str, int]:
    return {}


def _learn(name: str) -> dict[str, int]:
    count = struct.unpack_from("=I", _ioctl(name, struct.pack("=IIQI", GSSET_INFO, 0, 1 << SS_FEATURES, 0)), 16)[0]
    answer = _ioctl(name, struct.pack("=III", GSTRINGS, SS_FEATURES, count) + bytes(STRING_BYTES * count))
    texts = [answer[12 + i * STRING_BYTES :][:STRING_BYTES].split(b"\0")[0].decode() for i in range(count)]
    _feature_places().update({text: place for place, text in enumerate(texts)})
    return _feature_places()


def _ioctl(name: str, body: bytes) -> bytes:
    """SIOCETHTOOL on one interface of the caller's namespace: the body comes back with the kernel's answer."""
    encoded = name.encode()
    if len(encoded) > 15:
        raise OSError(errno.ENODEV, name)
    buffer = array.array("B", body)
    request = struct.pack("@16sP16x", encoded, buffer.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        fcntl.ioctl(door, SIOCETHTOOL, request)
    return buffer.tobytes()
