"""The addresses of this machine on which the people who run us are connected: what must never be cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def ssh_addresses(proc: Path = PROC) -> frozenset[str]:
    """This machine's end of the SSH session that we run in; empty when there is none.

    SSH_CONNECTION is "client port server port". Our own environment may lack it (sudo drops it), so the processes
    above us are asked too, as far as we may read theirs.
    """
    return frozenset(_local_ends(proc))


def _local_ends(proc: Path) -> Iterator[str]:
    process = os.getpid()
    while process > 0:
        folder = proc / str(process)
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:  # it has ended, or is not ours to read
            return
        for variable in variables:
            if variable.startswith(b"SSH_CONNECTION=") and len(words := variable.split()) == 4:
                yield words[2].decode()
        process = int(parent)
