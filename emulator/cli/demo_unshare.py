"""`longhaul serve --demo --here`: the demo on this machine's kernel, in real time, through netem or the wire engine.

It runs in its own namespaces for processes, mounts and network: it sees no port and no lane of the machine and keeps
its state in memory. The kernel removes all of it when the demo ends, however it ends.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import NoReturn

from emulator.errors import MissingError

SETTLE = """
mount -t tmpfs -o mode=0755 tmpfs /run && mount -t sysfs sysfs /sys && ip link set lo up && exec "$@"
"""
"""Prepares the namespaces: a /run without the machine's namespaces and engines, and a /sys of their own network."""


def serve(listener: socket.socket) -> NoReturn:
    """Replace this process by the demo, which serves on a socket of the machine's network. Raises MissingError."""
    if os.geteuid() != 0:
        raise MissingError("the demo on this machine needs root; without --here it runs in the lab and needs no root")
    os.set_inheritable(listener.fileno(), True)
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    demo = [sys.executable, "-m", "emulator.cli.demo_server", str(listener.fileno())]
    os.environ["LONGHAUL_STATE"] = "/run/longhaul-demo"
    try:
        os.execvp("unshare", [*apart, "sh", "-c", SETTLE, "sh", *demo])
    except OSError as error:
        raise MissingError(f"cannot start unshare: {error.strerror}; install util-linux") from None
