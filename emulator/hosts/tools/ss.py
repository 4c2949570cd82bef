"""The sender's kernel's view of its streams: argv and parser of `ss -tinmH`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from emulator.analysis.observed import Sockets
from emulator.errors import MeasureError

_WORD = re.compile(r"\b([a-z_]+):(\d+)(us|ms)?")
_RTT = re.compile(r"\brtt:([\d.]+)/")
_RETRANS = re.compile(r"\bretrans:\d+/(\d+)")
_SEND_BUFFER = re.compile(r"skmem:\(.*?\btb(\d+)")


class Socket(Struct, frozen=True):
    """One TCP connection, seen from the sending end. Times are totals since its start."""

    local: str
    mss_bytes: int
    cwnd_segments: int
    bytes_sent: int
    bytes_retransmitted: int
    bytes_acked: int
    unacked_segments: int
    retransmits: int
    rtt_us: float
    busy_us: int
    rwnd_limited_us: int
    sndbuf_limited_us: int
    peer_window_bytes: int
    send_buffer_bytes: int
    app_limited: bool

    @property
    def in_flight_bytes(self) -> int:
        """Bytes sent and not acknowledged."""
        return self.unacked_segments * self.mss_bytes


def argv(address: str, port: int, *, server: bool = False) -> list[str]:
    """The arguments that list every connection to a server; `server`: at the server, those of the client's address."""
    return ["ss", "-tinmH", "dst", address, "sport" if server else "dport", "=", f":{port}"]


def parse(text: str) -> list[Socket]:
    """Parse the output of `ss -tinmH`: two lines for each socket. Raises MeasureError."""
    lines = [line for line in text.splitlines() if line.strip()]
    return [_socket(one, other) for one, other in zip(lines[::2], lines[1::2], strict=False)]


def _socket(addresses: str, details: str) -> Socket:
    words = {name: int(value) * (1000 if unit == "ms" else 1) for name, value, unit in _WORD.findall(details)}
    rtt, send_buffer = _RTT.search(details), _SEND_BUFFER.search(details)
    if not send_buffer or not {"cwnd", "mss"} <= words.keys() or not addresses[:1].isalnum():
        raise MeasureError(f"cannot parse the output of ss: {addresses[:60]!r}, {details[:60]!r}")
    retrans = _RETRANS.search(details)
    return Socket(
        local=addresses.split()[-2],
        mss_bytes=words["mss"],
        cwnd_segments=words["cwnd"],
        bytes_sent=words.get("bytes_sent", 0),
        bytes_retransmitted=words.get("bytes_retrans", 0),
        bytes_acked=words.get("bytes_acked", 0),
        unacked_segments=words.get("unacked", 0),
        retransmits=int(retrans[1]) if retrans else 0,
        # ss omits an RTT of 0, which the lab's clock makes possible.
        rtt_us=float(rtt[1]) * 1000 if rtt else 0.0,
        busy_us=words.get("busy", 0),
        rwnd_limited_us=words.get("rwnd_limited", 0),
        sndbuf_limited_us=words.get("sndbuf_limited", 0),
        peer_window_bytes=words.get("snd_wnd", 0),
        send_buffer_bytes=int(send_buffer[1]),
        app_limited=" app_limited " in details,
    )


def summarize(looks: Sequence[Sequence[Socket]]) -> Sockets | None:
    """Means over all readings for one stream; None when fewer than two readings show the same streams at work.

    Totals of one connection cannot be compared with those of another: of a workload that opens one after the other, the
    readings of the longest count.
    The kernel's own sndbuf_limited misses a writer that sleeps until a third of its buffer is free. But a stream that
    always has more to send and is still "app_limited" can only be waiting for its send buffer.
    """
    streams = [tuple(socket.local for socket in look) for look in looks]
    longest = max(streams, key=streams.count, default=())
    looks = [look for look, seen in zip(looks, streams, strict=True) if seen == longest]
    sockets = [socket for look in looks for socket in look]
    # A receiver without CPU time closes its window at times, and then ss shows none.
    if len(looks) < 2 or not any(socket.peer_window_bytes for socket in sockets):
        return None
    busy, rwnd, sndbuf = (
        sum(getattr(s, name) for s in looks[-1]) - sum(getattr(s, name) for s in looks[0])
        for name in ("busy_us", "rwnd_limited_us", "sndbuf_limited_us")
    )
    starved = sum(s.app_limited for s in sockets) / len(sockets)
    return Sockets(
        in_flight_bytes=round(_mean([s.in_flight_bytes for s in sockets])),
        most_in_flight_bytes=max(s.in_flight_bytes for s in sockets),
        peer_window_bytes=round(_mean([s.peer_window_bytes for s in sockets])),
        send_buffer_bytes=round(_mean([s.send_buffer_bytes for s in sockets])),
        rtt_ns=round(_mean([s.rtt_us for s in sockets]) * 1000),
        rwnd_share=rwnd / busy if busy else 0.0,
        sndbuf_share=max(sndbuf / busy if busy else 0.0, starved),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
