"""Ports that a program of a test may listen at."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def free_ports(count: int = 1) -> Iterator[int]:
    """The first of so many ports in a row that nobody else gets: they are bound here too, and those who listen there
    allow that (SO_REUSEADDR).

    They are free at every address, as where a program listens at all of them: another's connection from such a port
    elsewhere would be in the way.
    """
    while True:
        with ExitStack() as held:
            try:
                first = _bound(held, 0)
                for number in range(1, count):
                    _bound(held, first + number)
            except (OSError, OverflowError):  # one of them is taken, or beyond the last
                continue
            yield first
            return


def _bound(held: ExitStack, port: int) -> int:
    """A socket that has this port, any for 0; its port."""
    one = held.enter_context(socket.socket())
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("", port))
    return int(one.getsockname()[1])
