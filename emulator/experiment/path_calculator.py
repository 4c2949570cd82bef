"""Calculates a path: its BDP, what TCP needs to fill it, and what the emulator needs for it (`bdp`, `advise`)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from emulator import units
from emulator.analysis import tcp_path, throughput_models, tuning_advice
from emulator.analysis.tcp_path import TcpPath
from emulator.analysis.throughput_models import Windows
from emulator.errors import InputError
from emulator.experiment.cell_spec import KERNEL_BUFFERS, buffers_of
from emulator.hosts import tcp_profiles
from emulator.hosts.saved_settings import TCP_MEM
from emulator.model.impairment import Impairment
from emulator.model.tcp_profile import Profile
from emulator.model.topology import Lane
from emulator.plan import netem_lowering


def facts(path: TcpPath, window_bytes: int | None) -> dict[str, Any]:
    """All figures as numbers, with units in their names. `window_bytes` None: the window is no limit.

    Raises InputError for a path that no lane can have.
    """
    limited = Impairment(rate_bps=path.rate_bps)
    try:
        lane = Lane("lane", limited, limited, mtu=path.mtu).with_rtt(path.rtt_ns)
    except ValueError as error:
        raise InputError.single(str(error), "path") from None
    egress = netem_lowering.lower(lane, seed=0, has_seed=False).outbound
    prediction = throughput_models.predict(path, Windows(window_bytes))
    most = tcp_profiles.maximum(path.rate_bps, path.rtt_ns)
    return {
        "bdp_bytes": path.bdp_bytes,
        "line_bytes_per_s": path.line_bytes_per_s,
        "slow_start_ns": tcp_path.slow_start_ns(path.bdp_bytes, path.rtt_ns, path.mtu),
        "socket_buffer_bytes": most.tcp_rmem[2] if most.tcp_rmem else None,
        "predicted_bytes_per_s": prediction.bytes_per_s,
        "predicted_limit": prediction.limit,
        "first_10s_bytes_per_s": prediction.mean_bytes_per_s,
        "streams_needed": _streams_needed(path, most, window_bytes),
        "netem_limit_packets": egress.netem.limit,
        "buffer_bytes": netem_lowering.buffer_bytes(lane, limited),
        "netem_memory_bytes": 2 * netem_lowering.queue_bytes(lane, limited),
    }


def _streams_needed(path: TcpPath, most: Profile, window_bytes: int | None) -> dict[str, int]:
    """The number of streams that fill the line, by profile, and for the given window."""
    buffers = {profile.name: buffers_of(profile) for profile in (tcp_profiles.DEFAULT, tcp_profiles.FOUNDING, most)}
    allowed = {name: tuning_advice.windows(both, both) for name, both in buffers.items()}
    if window_bytes is not None:
        allowed[f"of {units.format_size(window_bytes)}"] = Windows(window_bytes, window_bytes)
    return {name: tuning_advice.streams_needed(path, one) for name, one in allowed.items()}


def rows(path: TcpPath, found: dict[str, Any]) -> list[tuple[str, str]]:
    """The same for people."""
    reached = "1 stream reaches" if path.streams == 1 else f"{path.streams} streams reach"
    needed = ", ".join(f"{number} {name}" for name, number in found["streams_needed"].items())
    return [
        ("path", f"{units.format_rate(path.rate_bps)}, {units.format_duration(path.rtt_ns)}, MTU {path.mtu}"),
        ("BDP", units.format_size(found["bdp_bytes"])),
        ("line carries", units.throughput_text(found["line_bytes_per_s"])),
        (reached, f"{units.throughput_text(found['predicted_bytes_per_s'])}, limited by {found['predicted_limit']}"),
        ("in the first 10 s", f"{units.throughput_text(found['first_10s_bytes_per_s'])}, with the slow start in it"),
        ("slow start takes", f"{found['slow_start_ns'] / tcp_path.NS:.2f} s until the window is one BDP"),
        ("socket buffers", f"{units.mib_text(found['socket_buffer_bytes'])} each way (profile max)"),
        ("streams needed", f"{needed}, by profile"),
        ("bottleneck buffer", units.format_size(found["buffer_bytes"])),
        ("netem limit", f"{found['netem_limit_packets']} packets per direction"),
        ("netem memory", f"{units.mib_text(found['netem_memory_bytes'])} at most, both directions full"),
    ]


class HostAdvice(Struct, frozen=True):
    """The commands for both hosts, and the steady throughput before and after them, in bytes/s.

    `streams` is the number of streams that fill the line afterwards; `then` is what then limits the given streams.
    """

    commands: list[str]
    before: float
    after: float
    then: str
    streams: int


def host_advice(path: TcpPath, peer: str | None = None) -> HostAdvice:
    """The commands with which hosts of default settings fill a path; on a lossy path they include BBR.

    They raise the first window on the route to `peer`, the other host; without it on the default route.
    """
    most = tcp_profiles.maximum(path.rate_bps, path.rtt_ns)
    tuned = replace(most, congestion_control="bbr") if path.loss else most
    allowed = tuning_advice.windows(buffers_of(most), buffers_of(most))
    before = throughput_models.predict(path, tuning_advice.windows(KERNEL_BUFFERS, KERNEL_BUFFERS))
    after = throughput_models.predict(replace(path, congestion_control=tuned.congestion_control or "cubic"), allowed)
    commands = [_sysctl(name, value) for name, value in tcp_profiles.sysctls_of(tuned).items()]
    # Of several routes that match, the closest stands last.
    route = f"ip route show match {peer} | tail -n 1" if peer else "ip route show default | head -n 1"
    commands += [f"ip route change $({route}) initcwnd {tcp_profiles.FIRST_WINDOW_INITCWND}", "ip tcp_metrics flush"]
    return HostAdvice(
        commands, before.bytes_per_s, after.bytes_per_s, after.limit, tuning_advice.streams_needed(path, allowed)
    )


def _sysctl(name: str, value: str) -> str:
    """The command that sets it; it never lowers a setting of the whole machine."""
    if name != TCP_MEM:
        return f"sysctl -w {name}='{value}'"
    raised = "{split(WANTED, w); $1 = $1; for (i = 1; i <= 3; i++) if ($i < w[i]) $i = w[i]; print}"
    raised = raised.replace("WANTED", f'"{value}"')
    return f"sysctl -w {name}=\"$(sysctl -n {name} | awk '{raised}')\""
