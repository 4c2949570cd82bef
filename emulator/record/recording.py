"""One recording, from the choice of end and tool to the finished profile, also when it is interrupted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from emulator import units
from emulator.errors import InputError, MeasureError, no_such
from emulator.experiment.attempts import Attempts
from emulator.hosts import resolve
from emulator.hosts.tools import ping
from emulator.hosts.tools.process import ProgramHost
from emulator.hosts.tools.rtt_prober import between
from emulator.hosts.tools.workloads import PATH_RATE
from emulator.model.schedule import MOST_KEYS
from emulator.model.topology import Topology
from emulator.record import file, probes
from emulator.record.path_profile import (
    ONE_CLOCK,
    ROUND_TRIPS,
    TWO_CLOCKS,
    PathProfile,
    RecordingSource,
    profiled,
    ways_of,
)
from emulator.record.probes import RecordedProbe
from emulator.record.rate import measured
from emulator.record.recorder import FASTEST_NS, Here, Notebook, Task, answers_irtt, by_irtt, by_ping

TOOLS = ("auto", "irtt", "ping")
STEP_NS = 10**9
_UNKNOWN_HOST = 2
_PATIENCE_S = 30.0


class RecordingPlan(Struct, frozen=True):
    """How to record: the tool (one of TOOLS), the interval and the duration of the probes, and the trace's step."""

    by: str = "auto"
    every_ns: int = 10**8
    for_ns: int = 60 * 10**9
    step_ns: int = STEP_NS

    @property
    def mistakes(self) -> list[tuple[str, str]]:
        """What cannot be recorded so: the names of settings (every, for, step), each with what is wrong."""
        found, steps, count = [], self.for_ns // max(1, self.step_ns), self.for_ns // max(1, self.every_ns)
        if self.every_ns < FASTEST_NS:
            least = units.format_duration(FASTEST_NS)
            found.append(("every", f"use at least {least}: more probes would load the path"))
        elif count > probes.MOST_PROBES:
            text = f"{count} probes are too many, {probes.MOST_PROBES} at most: use a longer interval (every)"
            found.append(("for", text))
        if self.for_ns < self.every_ns:
            found.append(("for", "this duration is too short for one probe"))
        if self.step_ns < self.every_ns:
            found.append(("step", "a step of the trace must be at least the interval (every)"))
        elif steps > MOST_KEYS // 2:
            found.append(("step", f"{steps} steps are too many for a trace: {MOST_KEYS // 2} at most"))
        return found


def is_address(text: str) -> bool:
    """Whether a tool takes this text for a host's name or address, never for an option."""
    return bool(text) and not text.startswith("-") and not any(letter.isspace() for letter in text)


class Target(Struct, frozen=True):
    """The sending end and the address, whether irtt is available, and whether both ends share one clock.

    `server` runs the rate test's server at the far end. Where we do not control that end, it does nothing: a server
    must already run there.
    """

    end: ProgramHost
    address: str
    has_irtt: bool
    one_clock: bool
    server: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


@contextlib.contextmanager
def to_host(address: str, by: str) -> Iterator[Target]:
    """From this machine to an address or a host name. Raises MeasureError when the name cannot be resolved."""
    end = Here()
    # The first packet waits for ARP, and shows whether the name resolves.
    said = end.run(["ping", "-n", "-q", "-c", "1", "-W", "2", "--", address], _PATIENCE_S)
    if said.exit_code >= _UNKNOWN_HOST:
        said.checked()
    yield Target(end, address, by != "ping" and answers_irtt(end, address), one_clock=False)


@contextlib.contextmanager
def over_lane(topology: Topology, name: str, by: str) -> Iterator[Target]:
    """From the hub's host to a site's host. Raises InputError without such a lane or without a host at both ends."""
    if name not in topology.sites:
        raise InputError.single(no_such("lane", name, topology.sites), "--lane")
    with resolve.reached(topology) as hosts:
        ends = topology.ends(name)
        if not any({ends.hub.host, ends.site.host} <= set(group) for group in resolve.groups(topology)):
            raise InputError.single("a recording needs a host at both ends: give the lane a host", "--lane", name)
        address, hub = str(ends.site.address.ip), hosts[ends.hub.host]
        precise = ping.is_precise(hub)
        with between(hub, hosts[name], address, topology.lane(name).rtt_ns, precise) as prober:
            if prober.by_irtt and by != "ping":
                # The irtt server may still be starting.
                attempts = Attempts()
                with attempts.explained():
                    attempts(prober.what, lambda patience: replace(prober, patience=patience).idle())
            one_clock = ends.hub.is_namespace and ends.site.is_namespace
            yield Target(
                hub, address, prober.by_irtt and by != "ping", one_clock, lambda: PATH_RATE.server(hosts[name])
            )


def record(
    ends: Target,
    label: str,
    at: str,
    folder: Path,
    plan: RecordingPlan,
    reported: Callable[[RecordedProbe], None],
) -> None:
    """Record into a new folder. Raises MeasureError, InputError; KeyboardInterrupt when the user interrupts it.

    Probes answered until then stay in the folder.
    """
    if plan.by == "irtt" and not ends.has_irtt:
        raise MeasureError(f"irtt does not reach {label}: run irtt server there, or omit --by to use ping")
    split = (ONE_CLOCK if ends.one_clock else TWO_CLOCKS) if ends.has_irtt else ROUND_TRIPS
    file.begin(folder, RecordingSource(label, "irtt" if ends.has_irtt else "ping", at, plan.every_ns, split))
    with Notebook(folder, reported) as notebook:
        (by_irtt if ends.has_irtt else by_ping)(Task(ends.end, ends.address, plan.every_ns, plan.for_ns), notebook)


def measure_rates(ends: Target, folder: Path) -> None:
    """Load the path for half a minute and save its rates. Raises MeasureError."""
    file.keep_rates(folder, measured(ends.end, ends.address, ends.server))


def finish(folder: Path, step_ns: int) -> PathProfile:
    """Compute the profile from a recording's folder and write it there.

    Raises InputError when no probe was answered.
    """
    source, recorded, rates_bps = file.recorded(folder)
    try:
        profile = profiled(source, recorded, rates_bps)
    except ValueError as error:
        raise InputError.single(f"{error}: is {source.host} up, and does it answer ping?", str(folder)) from None
    both = zip(file.DIRECTIONS, ways_of(source, recorded), strict=True)
    file.save(folder, profile, {name: probes.trace(probes.trace_steps(way, step_ns)) for name, way in both})
    return profile
