"""The addresses of this machine through which its users are connected: Longhaul never takes their ports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def ssh_addresses(proc: Path = PROC) -> frozenset[str]:
    """This machine's end of the SSH session that this process runs in; empty when there is none.

    SSH_CONNECTION is "client port server port". This process's environment may lack it (sudo drops it), so
    Longhaul reads the environments of the parent processes too, as far as it may.
    """
    return frozenset(_local_ends(proc))


def _local_ends(proc: Path) -> Iterator[str]:
    process = os.getpid()
    while process > 0:
        folder = proc / str(process)
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            parent = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()[1]
        except OSError:  # it has ended, or this process may not read it
            return
        for variable in variables:
            if variable.startswith(b"SSH_CONNECTION=") and len(words := variable.split()) == 4:
                yield words[2].decode()
        process = int(parent)
