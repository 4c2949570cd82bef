"""A server on a host that is ready before a client connects to it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from emulator.errors import MeasureError
from emulator.hosts.host import Host
from emulator.hosts.tools.process import Running
from emulator.system.lateness import Deadline

TIMEOUT_S = 10.0
_POLL_S = 0.001


@contextmanager
def server(host: Host, argv: Sequence[str], port: int) -> Iterator[Running]:
    """Run the program on the host for the time of a block, which begins once it listens. Raises MeasureError."""
    with host.start(argv) as program:
        deadline = Deadline(TIMEOUT_S)
        while not host.is_listening(port):
            if not program.running():
                done = program.wait(TIMEOUT_S)
                words = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[-1]
                raise MeasureError(f"{argv[0]} on {host.name} ended before it listened on port {port}: {words}")
            if deadline.passed():
                raise MeasureError(f"{argv[0]} on {host.name} did not listen on port {port} within {deadline}")
            time.sleep(_POLL_S)
        yield program
