"""Every TCP connection between the two ends of a program, from what their kernels say when a connection ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from emulator.analysis.program_runs import TcpConnection
from emulator.errors import MeasureError
from emulator.hosts.tools import ss_events
from emulator.hosts.tools.process import Running
from emulator.hosts.tools.program_ends import POLL_S, ProgramEnd
from emulator.hosts.tools.ss_events import EndedSocket
from emulator.system.lateness import Deadline

LOG = "sockets"
_QUICK_S = 30.0
_TO_FILES = 'cd "$1" && shift && exec "$@" >sockets.out 2>sockets.err </dev/null'


class ConnectionLog:
    """What one end's kernel says of the connections to the address `other`."""

    def __init__(self, end: ProgramEnd, other: str) -> None:
        self.host, self._end, self._other = end.host, end, other
        self._read, self._open = 0, frozenset[tuple[str, str]]()

    def new(self) -> list[EndedSocket]:
        """The connections that began since the last call; their totals are final for those that have ended.

        Raises MeasureError.
        """
        # In this order: what ends in between is in both, and its final totals count.
        present = self._ours(self._end.host.run(list(ss_events.PRESENT_ARGV), _QUICK_S).checked().stdout)
        text = self._end.host.read(self._end.place(f"{LOG}.out"))
        # What follows the last line break is still being written.
        lines = text[: text.rfind("\n") + 1].splitlines()
        ended = self._ours("\n".join(lines[self._read :]))
        self._read = len(lines)
        found = {(one.local, one.peer): one for one in (*present, *ended) if (one.local, one.peer) not in self._open}
        self._open = frozenset((one.local, one.peer) for one in present) - {(one.local, one.peer) for one in ended}
        return list(found.values())

    def _ours(self, text: str) -> list[EndedSocket]:
        return [one for one in ss_events.parse(text) if one.peer.rpartition(":")[0] == self._other]


@contextmanager
def watched(end: ProgramEnd, other: str) -> Iterator[ConnectionLog]:
    """Log the end's connections for the time of a block. Raises MeasureError, MissingError when they cannot be seen."""
    argv = ["sh", "-c", _TO_FILES, "longhaul", end.folder, *ss_events.EVENTS_ARGV]
    with end.host.start(argv, as_root=True) as program:
        _until_it_listens(end, program)
        log = ConnectionLog(end, other)
        log.new()
        yield log


def _until_it_listens(end: ProgramEnd, program: Running) -> None:
    deadline = Deadline(_QUICK_S)
    while not ss_events.listens(end.host.read(ss_events.NETLINK_TABLE)):
        if not program.running() or deadline.passed():
            raise MeasureError(f"ss -E on {end.host.name} sees no sockets end: {end.last_words(LOG)}")
        time.sleep(POLL_S)


def connections(client: Sequence[EndedSocket], server: Sequence[EndedSocket]) -> tuple[TcpConnection, ...]:
    """The connections as both kernels saw them, in the client's order."""
    answers = {(one.peer, one.local): one for one in server}
    return tuple(_joined(one, answers.get((one.local, one.peer))) for one in client)


def _joined(client: EndedSocket, server: EndedSocket | None) -> TcpConnection:
    return TcpConnection(
        sent_bytes=client.sent_bytes,
        # The receiver's own total counts the FIN, too.
        received_bytes=server.sent_bytes if server else client.received_bytes,
        retransmits=client.retransmits + (server.retransmits if server else 0),
        client_busy_ns=client.busy_ns,
        client_rwnd_limited_ns=client.rwnd_limited_ns,
        client_sndbuf_limited_ns=client.sndbuf_limited_ns,
        server_busy_ns=server.busy_ns if server else 0,
        server_rwnd_limited_ns=server.rwnd_limited_ns if server else 0,
        server_sndbuf_limited_ns=server.sndbuf_limited_ns if server else 0,
    )
