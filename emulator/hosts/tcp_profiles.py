"""TCP profiles: the built-in ones, those of a user's file, and how to apply them to a host and restore it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from emulator import units
from emulator.analysis.tcp_path import bdp_bytes
from emulator.errors import InputError, no_such
from emulator.hosts import root_qdisc, route_metrics
from emulator.hosts.host import Host
from emulator.hosts.saved_settings import TCP_MEM
from emulator.model.bottleneck import ETHERNET_HEADER_BYTES
from emulator.model.impairment import Impairment
from emulator.model.tcp_profile import LARGEST_BUFFER_BYTES, Profile
from emulator.model.topology import Lane
from emulator.system import bounded_file

if TYPE_CHECKING:
    from emulator.config import yaml_source

MIB = 2**20
MAXIMUM = "max"
DEFAULT = Profile("default", no_metrics_save=None)
FOUNDING = Profile(
    "founding", tcp_rmem=(4096, 8 * MIB, 32 * MIB), tcp_wmem=(4096, 8 * MIB, 32 * MIB), no_metrics_save=True
)
SMALLEST_MAXIMUM_BYTES = 6 * MIB
PAGE_BYTES = 4096
TCP_MEM_PAGES = 2**22
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}"
"""Of a user's profile: it is part of the names of a run's files."""
FIRST_WINDOW_INITCWND = 45
"""The segments of 1448 bytes in a receiver's first window of 64 kB."""


def maximum(rate_bps: int, rtt_ns: int, buffer_bytes: int | None = None) -> Profile:
    """The largest buffers that suit this bottleneck: a window that fills the pipe and most of the bottleneck's queue.

    The queue (`buffer_bytes`, None: one BDP) never gets quite full, so nothing is dropped and the line stays busy. The
    kernel makes the window three quarters of the buffer, before Linux 6.6 half of it: both fill the pipe.
    """
    bdp = bdp_bytes(rate_bps, rtt_ns)
    window = bdp + (bdp if buffer_bytes is None else buffer_bytes) * 9 // 10
    buffer = min(max(window * 4 // 3, SMALLEST_MAXIMUM_BYTES), LARGEST_BUFFER_BYTES)
    pages = max(TCP_MEM_PAGES, 16 * buffer // PAGE_BYTES)
    return Profile(
        MAXIMUM,
        tcp_rmem=(4096, 131072, buffer),
        tcp_wmem=(4096, 131072, buffer),
        tcp_mem=(pages, pages, pages),
        no_metrics_save=True,
    )


def load_profiles(path: str | Path | None = None) -> dict[str, Profile]:
    """The built-in profiles of fixed size and those of a user's YAML file. `max` depends on the lane: see `choose`.

    Raises InputError with every mistake in the file.
    """
    built_in = {profile.name: profile for profile in (DEFAULT, FOUNDING)}
    return built_in | (_read(Path(path)) if path else {})


def maximum_for(lane: Lane, *ways: Impairment) -> Profile:
    """`maximum` for the direction of a lane that holds most, of those given."""
    found = []
    for way in ways:
        rate_bps = way.rate_bps or lane.line_rate_bps
        buffer_bytes = way.buffer.to_bytes(rate_bps, lane.mtu + ETHERNET_HEADER_BYTES) if way.buffer else None
        found.append(maximum(rate_bps, lane.rtt_ns, buffer_bytes))
    return max(found, key=lambda profile: profile.tcp_rmem or ())


def choose(name: str, known: Mapping[str, Profile], lane: Lane, *ways: Impairment) -> Profile:
    """The profile of this name for data in these directions of a lane. Raises InputError for an unknown name."""
    if name == MAXIMUM:
        return maximum_for(lane, *ways)
    if name not in known:
        raise InputError.single(no_such("TCP profile", name, (*known, MAXIMUM)), "--tcp-profile")
    return known[name]


def _read(path: Path) -> dict[str, Profile]:
    from emulator.config import yaml_source  # slow to import, with YAML; a cell in its lab has its profile

    try:
        source = yaml_source.read(bounded_file.read_text(path, bounded_file.TCP_PROFILES), str(path))
    except OSError as error:
        raise InputError.single(f"cannot be read: {error.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise InputError.single("is not a text file in UTF-8", str(path)) from None
    assert isinstance(source.tree, dict)
    profiles = {name: _profile(source, name, values) for name, values in source.tree.items()}
    source.raise_mistakes()
    return {name: profile for name, profile in profiles.items() if profile}


def _profile(source: yaml_source.Source, name: str, values: yaml_source.Tree) -> Profile | None:
    if name in (DEFAULT.name, MAXIMUM):
        source.wrong((name,), "is a built-in profile: choose another name")
        return None
    if not re.fullmatch(NAME_PATTERN, name):
        source.wrong((name,), "is no name of a TCP profile: use up to 40 letters, digits, - and _")
        return None
    if not isinstance(values, dict):
        source.wrong((name,), "use a mapping such as 'tcp_rmem: 4KiB 8MiB 32MiB'")
        return None
    known = [name for name in Profile.__struct_fields__ if name not in ("name", "window")]
    read: dict[str, object] = {}
    for key, value in values.items():
        if key not in known:
            source.wrong((name, key), f"unknown key; the keys are {', '.join(known)}")
            continue
        try:
            read[key] = _setting(key, value)
        except ValueError as error:
            source.wrong((name, key), str(error))
    try:
        return Profile(name, **read)  # type: ignore[arg-type]
    except ValueError as error:
        source.wrong((name, str(error).split()[0]), str(error))
        return None


def _setting(key: str, value: yaml_source.Tree) -> object:
    """Parse one value of a profile file according to its key. Raises ValueError."""
    words = value.split() if isinstance(value, str) else value
    if key in ("tcp_rmem", "tcp_wmem", "tcp_mem"):
        if len(words) != 3 or not all(isinstance(word, str) for word in words):
            raise ValueError("use three values: minimum, default, maximum")
        parse = units.parse_count if key == "tcp_mem" else units.parse_size_bytes
        return tuple(parse(str(word)) for word in words)
    if not isinstance(value, str):
        raise ValueError("use one value")
    if key == "no_metrics_save":
        if value not in ("true", "false"):
            raise ValueError(f"{value!r} is not one of true, false")
        return value == "true"
    return value if key in ("congestion_control", "qdisc") else units.parse_count(value)


def notes(profile: Profile) -> list[str]:
    """What settings of this profile cannot do, for the user to read."""
    said = []
    if profile.initrwnd is not None:
        said.append(
            f"{profile.name}: initrwnd can only lower the first window; to raise it, raise tcp_rmem's second value "
            "at the receiver (Linux 6.12 and later)"
        )
    first_window = profile.tcp_rmem[1] if profile.tcp_rmem else 0
    if (profile.initcwnd or 0) > FIRST_WINDOW_INITCWND and first_window <= 131072:
        said.append(
            f"{profile.name}: initcwnd above {FIRST_WINDOW_INITCWND} has no effect while the receiver's first window "
            "is 64 kB: raise tcp_rmem's second value too"
        )
    return said


def sysctls_of(profile: Profile) -> dict[str, str]:
    """The sysctls that a profile sets, in the kernel's form."""
    triples = {f"net.ipv4.{key}": getattr(profile, key) for key in ("tcp_mem", "tcp_rmem", "tcp_wmem")}
    wanted = {name: " ".join(map(str, triple)) for name, triple in triples.items() if triple}
    if profile.congestion_control:
        wanted["net.ipv4.tcp_congestion_control"] = profile.congestion_control
    if profile.tcp_ecn is not None:
        wanted["net.ipv4.tcp_ecn"] = str(profile.tcp_ecn)
    if profile.no_metrics_save is not None:
        wanted["net.ipv4.tcp_no_metrics_save"] = f"{profile.no_metrics_save:d}"
    return wanted


def put_on(profile: Profile, host: Host) -> None:
    """Apply a profile to a host. Raises MissingError, MeasureError; part of the profile may then be applied."""
    for name, value in sysctls_of(profile).items():
        host.write_sysctl(name, value)
    metrics = _metrics(profile)
    for one in route_metrics.connected(host) if metrics != route_metrics.NONE else ():
        route_metrics.change(host, one, replace(metrics, window=metrics.window or one.metrics.window))
    if profile.qdisc:
        root_qdisc.put_on(host, profile.qdisc)


def _metrics(profile: Profile) -> route_metrics.Metrics:
    """The metrics of the hosts' routes under a profile.

    A route's `window` is the most that its host offers. On Linux 6.12 and 7.2 the window outgrows it when the first
    segments arrive, up to what its scale allows: 65535 << N bytes, where N comes from the size of the route's `window`.
    Just below a power of two that is all but the same figure.
    """
    window = None if profile.window is None else profile.window - 1
    return route_metrics.Metrics(profile.initcwnd, profile.initrwnd, window)


@contextlib.contextmanager
def applied(profile: Profile, *hosts: Host) -> Iterator[tuple[str, ...]]:
    """Apply the profile to all hosts for the time of a block, and restore exactly the former state in any case.

    Yields what could not be set and what to do about it, for the user to read: tcp_mem is global to the machine, and a
    container does not show it. Any other setting that a host lacks is an error.
    """
    routes, qdisc = _metrics(profile) != route_metrics.NONE, profile.qdisc is not None
    fitting = [(host, _fitting(profile, host)) for host in hosts]
    with contextlib.ExitStack() as undo:
        # Save every host before changing any: they may share the machine's settings.
        for host, one in fitting:
            if sysctls_of(one) or routes or qdisc:
                undo.enter_context(host.kept(list(sysctls_of(one)), routes=routes, qdisc=qdisc))
        for host, one in fitting:
            put_on(one, host)
        yield tuple(_unset(profile, host) for host, one in fitting if one != profile)


def _fitting(profile: Profile, host: Host) -> Profile:
    """The part of the profile that the host can set."""
    return profile if profile.tcp_mem is None or host.has_sysctl(TCP_MEM) else replace(profile, tcp_mem=None)


def _unset(profile: Profile, host: Host) -> str:
    value = sysctls_of(profile)[TCP_MEM]
    return (
        f"{profile.name}: {host.name} is a container, and tcp_mem belongs to its machine: run there "
        f"sysctl -w {TCP_MEM}='{value}'; without it, results report memory pressure where it occurs"
    )
