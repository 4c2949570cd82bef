"""The parser of ss, on captures of iproute2 6.15 in the lab while iperf3 sent over 32 ms."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.folders import CAPTURES

from emulator.errors import MeasureError
from emulator.hosts.tools import ss

ONE_STREAM = (CAPTURES / "ss-32ms-1.txt").read_text()


def busiest(text: str) -> ss.Socket:
    return max(ss.parse(text), key=lambda socket: socket.bytes_sent)


def test_a_sending_stream() -> None:
    socket = busiest(ONE_STREAM)
    assert socket == ss.Socket(
        local="10.77.0.1:34848",
        mss_bytes=1448,
        cwnd_segments=2113,
        bytes_sent=142511037,
        bytes_retransmitted=2554272,
        bytes_acked=137067766,
        unacked_segments=1996,
        retransmits=1764,
        rtt_us=32143.0,
        busy_us=1890000,
        rwnd_limited_us=60000,
        sndbuf_limited_us=0,
        peer_window_bytes=4669056,
        send_buffer_bytes=4194304,
        app_limited=True,
    )


def test_every_connection_is_there() -> None:
    assert len(ss.parse(ONE_STREAM)) == 2
    assert len(ss.parse((CAPTURES / "ss-32ms-4.txt").read_text())) == 5


def test_nothing_there_is_no_socket() -> None:
    assert ss.parse("") == []


def test_nonsense_is_an_error() -> None:
    with pytest.raises(MeasureError, match="cannot parse the output of ss"):
        ss.parse("ESTAB 0 0 10.77.0.1:1 10.77.0.2:2\n\t cubic wscale:7,7\n")


def test_shares_are_of_what_was_added_between_the_looks() -> None:
    first = replace(busiest(ONE_STREAM), app_limited=False, busy_us=1000, rwnd_limited_us=400, sndbuf_limited_us=0)
    last = replace(first, busy_us=3000, rwnd_limited_us=1900, sndbuf_limited_us=100, unacked_segments=3000)
    seen = ss.summarize([[first], [last]])
    assert seen is not None
    assert (seen.rwnd_share, seen.sndbuf_share) == (0.75, 0.05)
    assert seen.in_flight_bytes == (first.in_flight_bytes + 3000 * 1448) // 2
    assert seen.most_in_flight_bytes == 3000 * 1448


def test_a_stream_starved_by_its_send_buffer_shows_as_app_limited() -> None:
    socket = replace(busiest(ONE_STREAM), app_limited=True)
    seen = ss.summarize([[socket], [socket]])
    assert seen is not None
    assert seen.sndbuf_share == 1.0


def test_a_window_that_is_closed_at_times_is_still_a_stream_at_work() -> None:
    socket = busiest(ONE_STREAM)
    closed = replace(socket, peer_window_bytes=0)
    seen = ss.summarize([[socket], [closed]])
    assert seen is not None
    assert seen.peer_window_bytes == round(socket.peer_window_bytes / 2)
    assert ss.summarize([[closed], [closed]]) is None


def test_streams_that_were_not_seen_twice_have_no_figures() -> None:
    assert ss.summarize([]) is None
    assert ss.summarize([[busiest(ONE_STREAM)]]) is None


def test_totals_of_different_connections_are_never_compared() -> None:
    one = replace(busiest(ONE_STREAM), busy_us=9000, rwnd_limited_us=9000)
    two = replace(one, local="10.77.0.1:1", busy_us=1000, rwnd_limited_us=100)
    three = replace(two, busy_us=3000, rwnd_limited_us=600)
    assert ss.summarize([[one], [two]]) is None
    seen = ss.summarize([[one], [two], [three]])
    assert seen is not None
    assert seen.rwnd_share == 0.25
