"""What the kernel says of a connection that ends, read from output of ss -E on Linux 6.18 (iproute2 6.1)."""

from __future__ import annotations

import pytest

from emulator.hosts.tools import ss_events
from emulator.hosts.tools.connection_log import connections
from emulator.hosts.tools.ss_events import EndedSocket

SERVER = (
    "UNCONN 1      0      10.77.0.2:9999 10.77.0.1:53308 wscale:10,10 rto:204 rtt:80.016/0.005 ato:40 mss:1448 "
    "cwnd:14 bytes_sent:102896 bytes_retrans:2896 bytes_acked:100001 bytes_received:3 segs_out:6 segs_in:6 "
    "data_segs_out:3 data_segs_in:1 send 333312000000bps busy:720ms rwnd_limited:640ms(88.9%) "
    "sndbuf_limited:12ms(1.7%) retrans:0/2 rcv_space:65483 minrtt:0.007 snd_wnd:95232"
)
CLIENT = (
    "UNCONN 0      0      [::ffff:10.77.0.1]:53308 [::ffff:10.77.0.2]:9999  wscale:10,10 bytes_sent:2 bytes_acked:4 "
    "bytes_received:100001 segs_out:6 segs_in:7 busy:160ms rcv_space:65495"
)


def test_both_ends_of_a_connection() -> None:
    server, client = ss_events.parse(f"{SERVER}\n{CLIENT}\n")
    assert server == EndedSocket(
        "10.77.0.2:9999", "10.77.0.1:53308", 100_000, 3, 2, 720_000_000, 640_000_000, 12_000_000
    )
    assert (client.local, client.peer, client.busy_ns) == ("10.77.0.1:53308", "10.77.0.2:9999", 160_000_000)
    (both,) = connections([client], [server])
    assert (both.sent_bytes, both.received_bytes, both.retransmits) == (2, 100_000, 2)
    assert (both.server_rwnd_limited_ns, both.client_rwnd_limited_ns) == (640_000_000, 0)


def test_an_end_that_was_not_seen_is_no_data() -> None:
    (alone,) = connections(ss_events.parse(CLIENT), [])
    assert (alone.received_bytes, alone.server_busy_ns) == (100_001, 0)


@pytest.mark.parametrize("line", ["", "State Recv-Q", "UNCONN 1 0 10.77.0.2:9", "TCP: inet_diag not there"])
def test_other_lines_are_skipped(line: str) -> None:
    assert ss_events.parse(f"{line}\n{CLIENT}") == ss_events.parse(CLIENT)


def test_somebody_listens_to_the_ends_of_sockets() -> None:
    head = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
    assert not ss_events.listens(f"{head}0 4 12 00000000 0 0 0 2 0 99\n0 0 12 00000001 0 0 0 2 0 98\n")
    assert ss_events.listens(f"{head}0 4 12 00000001 0 0 0 2 0 99\n")
