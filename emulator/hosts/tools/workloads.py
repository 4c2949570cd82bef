"""The known workloads, their conversion to JSON and back, and the tools of the other procedures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.errors import no_such
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.hosts.tools.iperf3 import Background, Datagrams, Iperf3, PathRate
from emulator.hosts.tools.program import ProgramWorkload
from emulator.hosts.tools.workload import StreamWorkload, Workload
from emulator.system import struct_json

KINDS: dict[str, type[Any]] = {one.kind: one for one in (Iperf3, ProgramWorkload, RequestsWorkload, FlowsWorkload)}
"""The workloads that a cell may run, by their name in JSON."""

STREAMS: StreamWorkload = Iperf3()
"""The default workload of a cell, and the workload of RFC 6349's TCP tests."""
DATAGRAMS = Datagrams
"""UDP at a given rate, to measure a bottleneck."""
PATH_RATE = PathRate()
"""A short test of a recorded path."""
BACKGROUND = Background
"""The demo's small steady traffic."""


def to_json(workload: Workload) -> dict[str, Any]:
    """Its kind, and its settings where it has any."""
    return {"kind": workload.kind, **struct_json.to_plain(workload)}


def from_json(value: Mapping[str, Any]) -> Workload:
    """The inverse of `to_json`. Raises ValueError on anything else."""
    settings = dict(value)
    kind = settings.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(no_such("workload", str(kind), sorted(KINDS)))
    found: Workload = struct_json.from_plain(KINDS[kind], settings)
    return found
