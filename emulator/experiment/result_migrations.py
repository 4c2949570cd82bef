"""Results of older formats in today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.experiment.cell_result import FORMAT
from emulator.model.sweep_axes import OUTBOUND

_KINDS_OF_FORMAT_1 = {
    "line": "line", "slow start": "slow start", "loss": "congestion window", "buffer drops": "congestion window",
    "congestion window": "unknown",
}  # fmt: skip


def migrated(value: Mapping[str, Any]) -> dict[str, Any]:
    """A result of any format that we ever wrote, in today's. Raises KeyError, ValueError."""
    old = dict(value)
    if old.get("format") == FORMAT:
        return old
    if old.get("format") != 2:
        old = _from_format_1(old)
    # Format 2 knew one direction at a time, and of the CPUs what the workload used.
    return old | {"format": FORMAT, "ways": [], "core_percent": 0.0}


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
