"""Reads the counters of every queue once a second, in one dump."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from emulator.kernel.protocol import QueueCounters
from emulator.kernel.qdisc_observe import NETEM_HANDLE, ROOT
from emulator.kernel.rtnl_socket import TCMSG, RtnlSocket, attributes
from emulator.plan.qdisc_ops import netem_place, shaper_major

RTM_GETQDISC = 38
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_PKT64 = 1, 3, 8
"""rtnetlink.h and gen_stats.h of the kernel's uapi."""

_BASIC = struct.Struct("=QI")
_QUEUE = struct.Struct("=III")
_PACKETS = struct.Struct("=Q")
_BANDS = struct.Struct("=i")


class Counted(Struct, frozen=True):
    """One qdisc's place and counters; `bands` is a prio's number of bands, 0 for other kinds."""

    index: int
    handle: int
    parent: int
    kind: str
    bands: int
    packets: int
    bytes: int
    queued_packets: int
    queued_bytes: int
    drops: int


def counters(rtnl: RtnlSocket) -> dict[str, QueueCounters]:
    """The counters of every netem of Longhaul's, by port. Raises OSError."""
    found = {}
    for index, ours in groupby(sorted(_every(rtnl), key=lambda one: one.index), lambda one: one.index):
        if counted := counters_of(list(ours)):
            with suppress(OSError):  # the interface has gone since
                found[rtnl.name_of(index)] = counted
    return found


def netem_backlog(rtnl: RtnlSocket, index: int, band: int | None = None) -> int:
    """The packets in the root queue of one interface, or in one of its bands. Raises OSError."""
    place, _ = netem_place(band)
    parent = ROOT if place is None else NETEM_HANDLE | place
    waiting = (one.queued_packets for one in _every(rtnl) if (one.index, one.parent) == (index, parent))
    return next(waiting, 0)


def _every(rtnl: RtnlSocket) -> Iterator[Counted]:
    return map(decoded, rtnl.dump(RTM_GETQDISC, TCMSG.pack(0, 0, 0)))


def counters_of(qdiscs: Sequence[Counted]) -> QueueCounters | None:
    """The counters of one interface's netems: all TX queues together, each flow apart; None without netem.

    `shaper_drops` are those of netem's child, which netem counts again.
    """
    netems = [one for one in qdiscs if one.kind == "netem"]
    if not netems:
        return None
    drops = {one.handle >> 16: one.drops for one in qdiscs if one.kind == "tbf"}
    bands = next((one.bands for one in qdiscs if one.kind == "prio" and one.bands), 0)
    if not bands:
        return _together(netems, drops.get(shaper_major(None), 0))
    each = [
        _together([one for one in netems if one.parent & 0xFFFF == band + 1], drops.get(shaper_major(band), 0))
        for band in range(bands)
    ]
    return replace(each[0], flows=tuple(each[1:]))


def _together(netems: Sequence[Counted], shaper_drops: int) -> QueueCounters:
    return QueueCounters(
        sum(one.packets for one in netems),
        sum(one.bytes for one in netems),
        sum(one.drops for one in netems),
        sum(one.queued_packets for one in netems),
        sum(one.queued_bytes for one in netems),
        shaper_drops,
    )


def decoded(body: bytes) -> Counted:
    """A qdisc from its message."""
    index, handle, parent = TCMSG.unpack_from(body)
    said = attributes(body[TCMSG.size :])
    kind = said[TCA_KIND].rstrip(b"\0").decode()
    stats = attributes(said.get(TCA_STATS2, b""))
    octets, packets = _BASIC.unpack_from(stats[TCA_STATS_BASIC]) if TCA_STATS_BASIC in stats else (0, 0)
    if TCA_STATS_PKT64 in stats:  # there when the packets are more than 32 bits count
        packets = _PACKETS.unpack_from(stats[TCA_STATS_PKT64])[0]
    queued, backlog, drops = _QUEUE.unpack_from(stats[TCA_STATS_QUEUE]) if TCA_STATS_QUEUE in stats else (0, 0, 0)
    options = said.get(TCA_OPTIONS, b"")
    bands = _BANDS.unpack_from(options)[0] if kind == "prio" and len(options) >= _BANDS.size else 0
    return Counted(index, handle, parent, kind, bands, packets, octets, queued, backlog, drops)
