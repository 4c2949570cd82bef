"""One cell in real time on a single CPU, in namespaces of its own: what it was judged by goes to stdout as JSON.

`tests/live/test_cpu_limit.py` starts it as `tests/engine/test_live.py` does its session. In the lab the CPU is
infinitely fast; here sender, receiver and the lane's engine share one.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing, suppress
from pathlib import Path

from emulator.control.appliance import Appliance
from emulator.control.local import local
from emulator.errors import MeasureError
from emulator.experiment import run_cell
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.model.impairment import Impairment
from emulator.model.tcp_profile import Profile
from emulator.model.topology import Lane, Topology

MIB = 2**20
LINE = Impairment(rate_bps=100 * 10**9)
ROOMY = Profile("roomy", (4096, 4 * MIB, 4 * MIB), (4096, 4 * MIB, 4 * MIB))
"""More than fills a line of microseconds, and less than the engine holds."""
DURATION_S = 12
"""On a loaded machine it takes seconds until the streams flow, and each look at them takes long, too."""

ATTEMPTS = 8
"""Where other programs want the same core, `ss` may get no turn while the streams flow, and the cell says so."""


def measured(spec: CellSpec, appliance: Appliance) -> CellResult:
    """The cell, begun anew as often as nobody could look. Raises MeasureError when that was always so."""
    for _ in range(ATTEMPTS - 1):
        with suppress(MeasureError):
            return run_cell.execute(spec, appliance).result
    return run_cell.execute(spec, appliance).result


def main() -> None:
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    topology = Topology("cell", "near", (Lane("far", LINE, LINE),), datapath="wire")
    one = CellSpec(topology, ROOMY, streams=1, congestion_control=None, duration_s=DURATION_S)
    with closing(local(Path("/run/state"), "cpusession", guard=lambda _: None)) as appliance:
        result = measured(one, appliance)
    found = {
        "kind": result.judgement.kind,
        "evidence": result.judgement.evidence,
        "findings": result.judgement.findings,
        "core_percent": result.machine.core_percent,
        "iperf3_percent": max(result.transfer.sender_cpu_percent, result.transfer.receiver_cpu_percent),
        "line_share": result.steady_bytes_per_s / one.path.line_bytes_per_s,
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
