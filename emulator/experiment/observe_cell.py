"""What every kind of cell observes at its hosts: addresses, idle RTT, counters, buffers and memory."""

from __future__ import annotations

import json

from emulator.analysis.tcp_path import NS
from emulator.analysis.verdict import Buffers
from emulator.errors import MissingError
from emulator.experiment.attempts import Attempts
from emulator.experiment.cell_spec import CellSpec
from emulator.hosts.host import Host
from emulator.hosts.tools import nstat, ping
from emulator.model.tcp_profile import Profile

PING_COUNT = 3
_TIMEOUT_S = 30.0


def address(spec: CellSpec, host: Host) -> str:
    """The host's address on the lane."""
    return str(spec.topology.address(host.name).ip)


def idle_rtt_ns(spec: CellSpec, sender: Host, receiver: Host, attempts: Attempts, asked_ns: int | None = None) -> int:
    """The least of some echoes over the idle lane, or between two hosts of another RTT. Raises MeasureError."""
    asked_ns = spec.lane.rtt_ns if asked_ns is None else asked_ns
    precise, to = ping.is_precise(sender), address(spec, receiver)
    if asked_ns > ping.GRID_S * NS:
        sender.run(ping.warm_up_argv(to), _TIMEOUT_S)
    echo = attempts(
        "the RTT before the run",
        lambda patience: ping.echoes(sender, to, PING_COUNT, asked_ns, precise, patience),
    )
    return min(echo.rtts_ns)


def buffers(host: Host, profile: Profile) -> Buffers:
    """The largest socket buffers that the host's kernel gives now, under this profile."""
    receive, send = (int(host.read_sysctl(f"net.ipv4.{name}").split()[2]) for name in ("tcp_rmem", "tcp_wmem"))
    return Buffers(receive, send, profile.window)


def counters(hub: Host, site: Host) -> dict[str, int]:
    """The TCP counters of both hosts together."""
    ends = [host.counters() for host in (hub, site)]
    return {name: sum(end[name] for end in ends) for name in nstat.WATCHED}


def forget_connections(host: Host) -> None:
    """Make the host's kernel forget earlier connections (tcp_metrics): what it remembers changes the slow start."""
    host.run(["ip", "tcp_metrics", "flush"], _TIMEOUT_S, as_root=True).checked()


def cached(host: Host) -> int:
    """The number of peers whose TCP metrics the host's kernel remembers. Raises MeasureError."""
    return len(json.loads(host.run(["ip", "-j", "tcp_metrics", "show"], _TIMEOUT_S).checked().stdout or "[]"))


def short_of_memory(host: Host) -> bool:
    """Whether TCP is short of tcp_mem now. Raises MeasureError."""
    protocols = host.read(nstat.PROTOCOLS)
    try:
        return nstat.short_of_memory(protocols, host.read_sysctl("net.ipv4.tcp_mem"))
    except MissingError:  # a container's namespace does not show it: use only the flag
        return nstat.short_of_memory(protocols, "0")
