"""What a cell was measured with: kernel, sysctls, queues, offloads and versions, as the machine reports them."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from emulator import __version__
from emulator.errors import MeasureError, MissingError
from emulator.hosts.tools import process
from emulator.hosts.tools.process import Completed
from emulator.system import clock

SYSCTLS = (
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_mem", "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_moderate_rcvbuf", "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_timestamps", "net.ipv4.tcp_sack", "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_mtu_probing",
)  # fmt: skip
LAB_SOURCE = "LONGHAUL_LAB_SOURCE"
"""Holds, in the lab of a cell, the version of the package that its kernel was built from."""
LAB_ROOT = "LONGHAUL_LAB_ROOT"
"""Holds, in the lab of a cell, the JSON of what its kernel and its programs were made of."""
ALGORITHMS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_TIMEOUT_S = 30.0


class InspectedHost(Protocol):
    """The host that sends the streams."""

    @property
    def interface(self) -> str:
        """The interface that connects to the lane."""

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program on the host."""

    def read_sysctl(self, name: str) -> str:
        """A sysctl's value."""


def algorithms(wanted: Iterable[str]) -> tuple[str, ...]:
    """The congestion controls of this machine's kernel, including those of `wanted` that it can load as root."""
    with socket.socket() as user:
        for name in wanted:
            with contextlib.suppress(OSError):
                user.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    return tuple(ALGORITHMS.read_text("utf-8").split())


def beside(host: InspectedHost, own: dict[str, Any]) -> dict[str, Any]:
    """A workload's own output, with all facts and the queues of this machine."""
    return {**own, "machine": record(host), "queues": queues()}


def record(host: InspectedHost) -> dict[str, Any]:
    """All facts. A fact that no tool can report stays empty: the facts inform readers and decide nothing."""
    lab = json.loads(os.environ.get(LAB_ROOT, "{}"))
    return ({"lab": lab} if lab else {}) | {
        "kernel": platform.uname()._asdict(),
        "cpus": len(os.sched_getaffinity(0)),
        "virtual_time": clock.here_is_virtual(),
        "counted_time": clock.here_is_counted(),
        "sysctls": {name: _sysctl(host, name) for name in SYSCTLS},
        "offloads": _offloads(_answer(host, ["ethtool", "-k", host.interface])),
        "versions": {
            "longhaul": __version__,
            "lab kernel's source": os.environ.get(LAB_SOURCE, ""),
            "python": platform.python_version(),
            "iproute2": _answer(host, ["ip", "-V"]).strip(),
            "ping": _answer(host, ["ping", "-V"]).strip(),
        },
    }


def queues() -> list[Any]:
    """Every queue in this machine's own namespace, where the lanes are, with its counters; none when tc fails.

    The lines of tc's text instead where its JSON is none: a queue that it does not know, such as dualpi2, breaks that.
    """
    try:
        said = process.run(["tc", "-s", "-j", "qdisc", "show"], _TIMEOUT_S).stdout
        return list(json.loads(said or "[]"))
    except (MissingError, MeasureError):
        return []
    except ValueError:
        return process.run(["tc", "-s", "qdisc", "show"], _TIMEOUT_S).stdout.splitlines()


def _answer(host: InspectedHost, argv: Sequence[str]) -> str:
    try:
        done = host.run(argv, _TIMEOUT_S)
    except (MissingError, MeasureError):
        return ""
    return done.stdout if not done.exit_code else ""


def _sysctl(host: InspectedHost, name: str) -> str:
    try:
        return host.read_sysctl(name)
    except (MissingError, MeasureError):  # a container's namespace has no tcp_mem
        return ""


def _offloads(text: str) -> dict[str, str]:
    """Parse `ethtool -k`: lines "name: on [fixed]" below a heading."""
    lines = (line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("Features"))
    return {name.strip(): state.strip() for name, state in lines}
