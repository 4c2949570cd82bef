"""One recording from its beginning to the profile: which end, which tool, and what becomes of it when it is cut off."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import InputError, MeasureError
from emulator.experiment.rfc6349_procedure import server
from emulator.hosts import resolve
from emulator.hosts.tools import ping
from emulator.hosts.tools.rtt_prober import between
from emulator.model.topology import Topology
from emulator.record import file, probes
from emulator.record.path_profile import ONE_CLOCK, ROUND_TRIPS, TWO_CLOCKS, PathProfile, Source, profiled, ways_of
from emulator.record.probes import Probe
from emulator.record.rate import measured
from emulator.record.recorder import End, Here, Notebook, Task, answers_irtt, by_irtt, by_ping

TOOLS = ("auto", "irtt", "ping")
STEP_NS = 10**9
_UNKNOWN_HOST = 2
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Ends:
    """Where probes are sent from and to, whether irtt can send them, and whether both ends are on one clock. `server`
    sees to iperf3's at the far end for one test; where we do not command that end, it runs already or does not."""

    end: End
    address: str
    has_irtt: bool
    one_clock: bool
    server: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


@contextlib.contextmanager
def to_host(address: str, by: str) -> Iterator[Ends]:
    """From this machine to any address or name. Raises MeasureError when it is not known."""
    end = Here()
    # The first packet pays for ARP, and shows whether the name means anything.
    said = end.run(["ping", "-n", "-q", "-c", "1", "-W", "2", "--", address], _PATIENCE_S)
    if said.exit_code >= _UNKNOWN_HOST:
        said.checked()
    yield Ends(end, address, by != "ping" and answers_irtt(end, address), one_clock=False)


@contextlib.contextmanager
def over_lane(topology: Topology, name: str, by: str) -> Iterator[Ends]:
    """From the hub's host to a site's. Raises InputError when there is no such lane, or no host at it."""
    if name not in topology.sites:
        raise InputError.single(f"no such lane; there are {', '.join(topology.sites) or 'none'}", "--lane", name)
    with resolve.reached(topology) as hosts:
        if not any({topology.hub, name} <= set(group) for group in resolve.groups(topology)):
            raise InputError.single("there is no host at both ends: give the lane a host", "--lane", name)
        address, hub = str(topology.address(name).ip), hosts[topology.hub]
        precise = hub.run(ping.precise_argv(), _PATIENCE_S).exit_code == 0
        with between(hub, hosts[name], address, topology.lane(name).rtt_ns, precise) as prober:
            if prober.by_irtt and by != "ping":
                # Its server may still be starting.
                prober.idle()
            virtual = name in {lane.name for lane in topology.virtual_lanes}
            yield Ends(hub, address, prober.by_irtt and by != "ping", virtual, lambda: server(hosts[name]))


def record(
    ends: Ends, label: str, at: str, folder: Path, by: str, every_ns: int, for_ns: int, told: Callable[[Probe], None]
) -> None:
    """Record into a new folder. Raises MeasureError, InputError; KeyboardInterrupt when it is cut off.

    Whatever was answered until then stands in the folder.
    """
    if by == "irtt" and not ends.has_irtt:
        raise MeasureError(f"irtt does not reach {label}: there, run irtt server; or leave --by away for ping")
    split = (ONE_CLOCK if ends.one_clock else TWO_CLOCKS) if ends.has_irtt else ROUND_TRIPS
    file.begin(folder, Source(label, "irtt" if ends.has_irtt else "ping", at, every_ns, split))
    with Notebook(folder, told) as notebook:
        (by_irtt if ends.has_irtt else by_ping)(Task(ends.end, ends.address, every_ns, for_ns), notebook)


def measure_rates(ends: Ends, folder: Path) -> None:
    """Load the path for half a minute and write its rates down. Raises MeasureError."""
    file.keep_rates(folder, measured(ends.end, ends.address, ends.server))


def finish(folder: Path, step_ns: int) -> PathProfile:
    """Work out what a folder has of a recording and write the profile beside it.

    Raises InputError when nothing was answered.
    """
    source, recorded, rates_bps = file.recorded(folder)
    try:
        profile = profiled(source, recorded, rates_bps)
    except ValueError as error:
        raise InputError.single(f"{error}: is {source.host} up, and does it answer ping?", str(folder)) from None
    both = zip(file.DIRECTIONS, ways_of(source, recorded), strict=True)
    file.save(folder, profile, {name: probes.trace(probes.moments(way, step_ns)) for name, way in both})
    return profile
