"""What a kernel says of every TCP connection when it ends: argv and parser of `ss -E -tinOH`.

The kernel sends a socket's last tcp_info to whoever listens (SKNLGRP_INET_TCP_DESTROY, net/core/sock_diag.c), so
that no connection is too short to be seen. `ss -tinOH` prints the connections that are still there in the same form.
"""

from __future__ import annotations

import re

from msgspec import Struct

NETLINK_TABLE = "/proc/net/netlink"
_SOCK_DIAG = "4"
_WORD = re.compile(r"\b([a-z_]+):(\d+)(ms)?(?=\s|$|,|\()")
_RETRANS = re.compile(r"\bretrans:\d+/(\d+)")
_MAPPED = "::ffff:"

EVENTS_ARGV = ("stdbuf", "-oL", "ss", "-E", "-tinOH")
"""Prints a line for every connection that ends; without stdbuf the lines wait in a buffer that a signal discards."""
PRESENT_ARGV = ("ss", "-tinOH")


class EndedSocket(Struct, frozen=True):
    """One end of a connection, with its totals. `sent_bytes` are payload without what was sent again."""

    local: str
    peer: str
    sent_bytes: int
    received_bytes: int
    retransmits: int
    busy_ns: int
    rwnd_limited_ns: int
    sndbuf_limited_ns: int


def listens(table: str) -> bool:
    """Whether a table in the form of /proc/net/netlink shows somebody who listens to the ends of sockets."""
    rows = (line.split() for line in table.splitlines())
    return any(len(row) > 3 and row[1] == _SOCK_DIAG and row[3].strip("0") for row in rows)


def parse(text: str) -> list[EndedSocket]:
    """The sockets of an output, in its order; lines that are cut off or of another form are skipped."""
    return [socket for line in text.splitlines() if (socket := _socket(line))]


def _socket(line: str) -> EndedSocket | None:
    words = line.split()
    if len(words) < 6 or not (words[1].isdigit() and words[2].isdigit() and ":" in words[4]):
        return None
    figures = {name: int(value) * (10**6 if unit else 1) for name, value, unit in _WORD.findall(line)}
    again = _RETRANS.search(line)
    return EndedSocket(
        local=_plain(words[3]),
        peer=_plain(words[4]),
        sent_bytes=figures.get("bytes_sent", 0) - figures.get("bytes_retrans", 0),
        received_bytes=figures.get("bytes_received", 0),
        retransmits=int(again[1]) if again else 0,
        busy_ns=figures.get("busy", 0),
        rwnd_limited_ns=figures.get("rwnd_limited", 0),
        sndbuf_limited_ns=figures.get("sndbuf_limited", 0),
    )


def _plain(address: str) -> str:
    """An address and port; an IPv4 address that a socket of IPv6 has is IPv4."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]").partition("%")[0]
    return f"{host.removeprefix(_MAPPED)}:{port}"
