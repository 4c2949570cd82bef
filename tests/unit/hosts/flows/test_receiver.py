"""An endless flow over the loopback, counted while the kernel still fills its block."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.free_ports import free_ports
from support.waiting import PATIENCE_S, until

from emulator.hosts.flows.receiver import CLOSE_WAIT, RECEIVED_AT, STATE_AT, EndlessFlow, FlowReceiver
from emulator.hosts.requests.wire import TCP_INFO_BYTES

PART = 1000
"""Far less than a block."""
ESTABLISHED = 1
"""tcp_states.h."""


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, EndlessFlow, socket.socket]]:
    """The sender's socket, the flow, and the socket that tells of its end."""
    heard, told = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener, heard, told, socket.socket() as sender:
        sender.connect(listener.getsockname())
        flow = EndlessFlow(listener.accept()[0], told)
        yield sender, flow, heard
        flow.close()


def test_a_block_that_is_not_full_counts(ends: tuple[socket.socket, EndlessFlow, socket.socket]) -> None:
    sender, flow, _ = ends
    sender.sendall(bytes(PART))
    assert until(lambda: flow.total() == PART)
    assert (flow.taken(), flow.taken(), flow.ended) == (PART, 0, False)


def test_the_senders_end_is_told_and_is_no_byte(ends: tuple[socket.socket, EndlessFlow, socket.socket]) -> None:
    sender, flow, heard = ends
    sender.sendall(bytes(PART))
    sender.shutdown(socket.SHUT_WR)
    while not flow.ended:
        assert flow.total() <= PART
    assert (flow.total(), flow.lost) == (PART, False)
    assert heard.recv(2) == b"."


class Answers:
    """Stands before a socket and answers TCP_INFO: one of these answers each time."""

    def __init__(self, one: socket.socket, *answers: tuple[int, int]) -> None:
        self._one, self._answers = one, list(answers)

    def getsockopt(self, *_: int) -> bytes:
        state, received = self._answers.pop(0)
        info = bytearray(TCP_INFO_BYTES)
        info[STATE_AT] = state
        struct.pack_into("=Q", info, RECEIVED_AT, received)
        return bytes(info)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._one, name)


@pytest.mark.parametrize(
    "answers",
    [
        ((ESTABLISHED, PART), (ESTABLISHED, PART + 7)),
        ((ESTABLISHED, PART), (CLOSE_WAIT, PART + 1)),
        ((ESTABLISHED, PART + 1), (CLOSE_WAIT, PART + 1)),
        ((CLOSE_WAIT, PART + 1), (CLOSE_WAIT, PART + 1)),
    ],
)
def test_an_end_that_comes_while_the_kernel_answers_is_no_byte(
    ends: tuple[socket.socket, EndlessFlow, socket.socket], answers: tuple[tuple[int, int], ...]
) -> None:
    """The kernel reads the state before it counts the end."""
    _, flow, _ = ends
    flow.socket = Answers(flow.socket, *answers)  # type: ignore[assignment]
    assert flow.total() == PART


def test_a_sender_that_breaks_off_is_lost(ends: tuple[socket.socket, EndlessFlow, socket.socket]) -> None:
    sender, flow, heard = ends
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sender.close()
    assert heard.recv(2) == b"."
    assert (flow.ended, flow.lost) == (True, True)


def test_a_flow_that_goes_on_is_closed(ends: tuple[socket.socket, EndlessFlow, socket.socket]) -> None:
    _, flow, heard = ends
    flow.close()
    assert heard.recv(2) == b"."
    assert flow.ended


def test_no_byte_is_of_an_interval_that_was_over_when_the_flow_began_however_late_the_timer_is() -> None:
    begin_ns, after_ns, reports = time.monotonic_ns() + 3600 * 10**9, [0], list[dict[str, Any]]()
    with free_ports(2) as port:
        receiver = FlowReceiver(
            {"port": port, "senders": 1, "groups": [{"congestion_control": None, "bytes": None}], "interval_ns": 100,
             "intervals": 3, "patience_ns": 10**9, "longest_ns": 1000},
            lambda: begin_ns + after_ns[0],
        )  # fmt: skip
        receiver.listen()
        thread = threading.Thread(target=lambda: reports.append(receiver.run()), daemon=True)
        thread.start()
        with socket.create_connection(("127.0.0.1", port)) as control:
            assert control.recv(2) == b"b"
            after_ns[0] = 150
            with socket.create_connection(("127.0.0.1", port + 1)) as sender:
                sender.sendall(bytes(PART))
                sender.shutdown(socket.SHUT_WR)
                assert sender.recv(1) == b""
            after_ns[0] = 250
        thread.join(PATIENCE_S)
        for one in (receiver._ends, receiver._told, receiver._epoll, *(it for _, it in receiver._listening.values())):
            one.close()
        os.close(receiver._timer.fd)
    assert reports[0]["groups"] == [{"flows": [[0, PART, 0]], "late": 0}]
