"""The kernel's TCP counters of one namespace, from /proc/net/netstat and /proc/net/snmp; and whether TCP is short of
memory at present, from /proc/net/protocols.
"""

from __future__ import annotations

from emulator.analysis.observed import DELIVERED_MARKED, LISTEN_DROPS, LOSS_PROBES, TIMEOUTS
from emulator.errors import MeasureError

FILES = ("/proc/net/netstat", "/proc/net/snmp")
"""The files that hold the counters."""

RETRANSMITTED = "TcpRetransSegs"
WATCHED = {
    RETRANSMITTED: "segments retransmitted",
    TIMEOUTS: "retransmission timeouts",
    LOSS_PROBES: "probes sent because no acknowledgement came for two round trips",
    "TcpExtTCPMemoryPressures": "times TCP ran short of tcp_mem",
    "TcpExtTCPRcvQDrop": "segments the receiver had no memory for",
    "TcpExtTCPRcvCollapsed": "segments merged for lack of memory",
    "TcpExtPruneCalled": "times a receive queue was pruned",
    "TcpExtListenOverflows": "times a queue of accepted connections was full",
    LISTEN_DROPS: "segments that a listening socket dropped, mostly because its queue was full",
    DELIVERED_MARKED: "segments acknowledged as marked by ECN",
}
"""The counters that a cell reports, and what they count."""


PROTOCOLS = "/proc/net/protocols"
"""The memory of each protocol's sockets, and whether they are under pressure (proto_seq_printf, net/core/sock.c)."""


def parse(text: str) -> dict[str, int]:
    """Parse pairs of lines "Group: names..." and "Group: values..." to {"GroupName": value}. Raises MeasureError."""
    lines = text.splitlines()
    counters: dict[str, int] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        group, _, keys = names.partition(":")
        same, _, numbers = values.partition(":")
        if group != same or len(keys.split()) != len(numbers.split()):
            raise MeasureError(f"the kernel's counters cannot be read: {names[:60]!r} and {values[:60]!r}")
        counters |= {group + key: int(number) for key, number in zip(keys.split(), numbers.split(), strict=True)}
    return counters


def watched(text: str) -> dict[str, int]:
    """The watched counters of both files together. Raises MeasureError."""
    counters = parse(text)
    return {name: counters.get(name, 0) for name in WATCHED}


def increase(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """The increase between two readings."""
    return {name: after[name] - before.get(name, 0) for name in after}


def short_of_memory(protocols: str, tcp_mem: str) -> bool:
    """Whether TCP is under memory pressure: this lasts until it holds no more than tcp_mem's first value, in pages.

    The kernel's flag alone does not show it: the kernel clears it only at the next packet. Raises MeasureError.
    """
    rows = {words[0]: words for line in protocols.splitlines() if (words := line.split())}
    try:
        pages, pressed = int(rows["TCP"][3]), rows["TCP"][4]
        return pressed == "yes" and pages > int(tcp_mem.split()[0])
    except (KeyError, IndexError, ValueError):
        raise MeasureError(f"{PROTOCOLS} cannot be read: {protocols[:60]!r}, tcp_mem {tcp_mem!r}") from None
