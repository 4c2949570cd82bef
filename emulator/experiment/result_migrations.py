"""Converts results of older formats to the current one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.analysis.observed import Delays, MachineUse, Queues
from emulator.analysis.tcp_path import Interval, mean_until
from emulator.analysis.verdict import Judgement, Throughput
from emulator.experiment.repeated_result import FORMAT
from emulator.hosts.tools import workloads
from emulator.model.sweep_axes import OUTBOUND

_KINDS_OF_FORMAT_1 = {
    "line": "line", "slow start": "slow start", "loss": "congestion window", "buffer drops": "congestion window",
    "congestion window": "unknown",
}  # fmt: skip


def migrated(value: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a result of any earlier format to the current one. Raises KeyError, ValueError."""
    old = dict(value)
    if old.get("format") == FORMAT:
        return old
    if old.get("format") == 5:  # it had no groups of flows
        return {**old, "format": FORMAT}
    if old.get("format") == 4:
        return {**old, "format": FORMAT, "captures": []}
    if old.get("format") not in (2, 3):
        old = _from_format_1(old)
    # Format 2 knew one direction at a time, and of the CPUs what the workload used.
    return _grouped({"ways": [], "core_percent": 0.0, "datapath": "netem"} | old)


def _grouped(old: Mapping[str, Any]) -> dict[str, Any]:
    """What formats 1 to 3 kept side by side, in groups."""
    return {
        "format": FORMAT,
        "spec": old["spec"],
        "throughput": _picked(old, Throughput),
        "transfer": _transfer(old, old),
        "sockets": {
            "in_flight_bytes": old["window_bytes"],
            # Not kept before format 4: the mean is the least that it can have been.
            "most_in_flight_bytes": old["window_bytes"],
            "rtt_ns": old["loaded_rtt_ns"],
            **{name: old[name] for name in ("peer_window_bytes", "send_buffer_bytes", "rwnd_share", "sndbuf_share")},
        },
        "queues": _picked(old, Queues),
        "machine": _picked(old, MachineUse),
        "delays": _picked(old, Delays),
        "judgement": _picked(old, Judgement),
        "notes": old["notes"],
        "ways": [_way(way, old) for way in old["ways"]],
        "repeats": old["repeats"],
        "captures": [],
    }


def _picked(old: Mapping[str, Any], group: type[Any]) -> dict[str, Any]:
    return {name: old[name] for name in group.__struct_fields__}


def _way(way: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """A direction of format 3: its intervals were already by name, its first 10 s and its start were not kept."""
    intervals = [[i["start_s"], i["end_s"], i["bytes"]] for i in way["intervals"]]
    early = mean_until([Interval(*i) for i in intervals], 10) if intervals else way["mean_bytes_per_s"]
    known = {**way, "intervals": intervals, "steady_from_s": old["steady_from_s"], "first_10s_bytes_per_s": early}
    judged = {name: old[name] for name in ("predicted_mean_bytes_per_s", "predicted_limit", "laws")}
    judged |= {"invalid": [], "findings": []}
    return {
        "direction": way["direction"],
        "throughput": _picked(known, Throughput),
        "transfer": _transfer(known, old),
        "queues": _picked({**known, "datapath": old["datapath"]}, Queues),
        "judgement": _picked({**judged, **way}, Judgement),
    }


def _transfer(old: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
    """The transfer of a cell, or of one of its directions, of which less was kept."""
    intervals = [dict(zip(("start_s", "end_s", "bytes"), i, strict=True)) for i in old["intervals"]]
    ramp = [dict(zip(("end_s", "cwnd_bytes", "rtt_ns"), i, strict=True)) for i in old.get("ramp", [])]
    return {
        # There was one workload only.
        "program": workloads.STREAMS.kind,
        "tool": cell["tool"],
        "received_bytes": old["received_bytes"],
        "received_s": old["received_bytes"] / old["mean_bytes_per_s"] if old["mean_bytes_per_s"] else 0.0,
        "sent_bytes": old.get("sent_bytes"),
        "duration_s": cell["spec"]["duration_s"],
        "intervals": intervals,
        "retransmits": old["retransmits"],
        "retransmitted_bytes": old.get("retransmitted_bytes"),
        "sender_cpu_percent": cell["sender_cpu_percent"],
        "receiver_cpu_percent": cell["receiver_cpu_percent"],
        "threads": cell["spec"]["streams"],
        "ramp": ramp,
        "caveats": [],
    }


def _from_format_1(old: Mapping[str, Any]) -> dict[str, Any]:
    limiter = str(old["limiter"])
    kind = _KINDS_OF_FORMAT_1.get(limiter) or ("send buffer" if limiter.startswith("send") else "receive window")
    return {
        **old,
        "spec": old["spec"] | {"direction": OUTBOUND, "repeat": 0},
        "predicted_mean_bytes_per_s": old["predicted_bytes_per_s"],
        "laws": {old["predicted_limit"]: old["predicted_bytes_per_s"]},
        "kind": kind,
        "advice": "",
        "idle": None,
        "loaded": None,
        # Format 1 counted segments only.
        "retransmitted_bytes": old["retransmits"] * 1448,
        "findings": [],
        "repeats": [old["steady_bytes_per_s"]],
        "ramp": [],
    }
