"""The kernel's TCP counters of one namespace, from /proc/net/netstat and /proc/net/snmp."""

from __future__ import annotations

from emulator.errors import MeasureError

FILES = ("/proc/net/netstat", "/proc/net/snmp")
"""Where they stand."""

WATCHED = {
    "TcpRetransSegs": "segments sent again",
    "TcpExtTCPTimeouts": "retransmission timeouts",
    "TcpExtTCPMemoryPressures": "times TCP ran short of tcp_mem",
    "TcpExtTCPRcvQDrop": "segments the receiver had no memory for",
    "TcpExtTCPRcvCollapsed": "segments squeezed together for want of memory",
    "TcpExtPruneCalled": "times a receive queue was pruned",
}
"""The counters a cell reports, and what they count."""


def parse(text: str) -> dict[str, int]:
    """Pairs of lines "Group: names..." and "Group: values..." as {"GroupName": value}. Raises MeasureError."""
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
    """The watched counters out of both files together. Raises MeasureError."""
    counters = parse(text)
    return {name: counters.get(name, 0) for name in WATCHED}


def increase(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What was counted between two readings."""
    return {name: after[name] - before.get(name, 0) for name in after}
