"""Made-up reports of the flow program, for tests without a lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from emulator.analysis import flow_figures, flow_verdict
from emulator.analysis.flow_figures import FlowFigures, FlowTimes
from emulator.analysis.flow_verdict import FlowEvidence
from emulator.analysis.observed import DELIVERED_MARKED, MEMORY_PRESSURES, Delays, MachineUse, Queues
from emulator.experiment.flows_result import FlowsResult, path_of
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.hosts.requests.wire import DurationCounts
from emulator.model.flow_group import Contest
from support.made_results import cell_spec

MS = 10**6
LINE = 1_250_000_000 * 1448 / 1514
"""What 10 Gbit/s carry of payload in a second."""
NOTHING_SENT_AGAIN = {"retransmits": 0, "busy_us": 1000, "rwnd_limited_us": 0, "sndbuf_limited_us": 0}


def sender(contest: Contest, intervals: int, **changes: Any) -> dict[str, Any]:
    """What the sender reports; `changes` replace what it says of every group, by its own names."""
    transfers = changes.pop("transfers_ns", [])
    counts = DurationCounts()
    for ns in transfers:
        counts.add(ns)
    groups = [
        {
            "congestion_control": group.congestion_control,
            "windows": [1_000_000] * intervals,
            "trips_us": [90_000] * intervals,
            "least_trip_us": 80_000,
            "times": counts.report(),
            "sockets": NOTHING_SENT_AGAIN,
            "lost": [],
            "unfinished": 0,
            **changes,
        }
        for group in contest.groups
    ]
    return {"python": "3.13.5", "groups": groups, "cpu_s": 0.1, "wall_s": 10.0}


def receiver(rows: Sequence[Sequence[Sequence[int]]]) -> dict[str, Any]:
    """What the receiver reports of the bytes of each group's flows in each interval."""
    return {"groups": [{"flows": [list(flow) for flow in flows], "late": 0} for flows in rows], "cpu_s": 0.1}


def figures(contest: Contest, rows: Sequence[Sequence[Sequence[int]]], rtt_ns: int = 0, **changes: Any) -> FlowFigures:
    """Figures of a measurement with intervals of 1 s."""
    intervals = len(rows[0][0])
    times = FlowTimes(10**9, intervals, rtt_ns)
    return flow_figures.of_reports(contest, times, sender(contest, intervals, **changes), receiver(rows))


def evidence(contest: Contest, found: FlowFigures, **changes: Any) -> FlowEvidence:
    """What was observed of a sound cell."""
    queues = Queues(changes.pop("drops_limit", 0), changes.pop("drops_buffer", 0), 0)
    counted = {MEMORY_PRESSURES: "memory_pressures", DELIVERED_MARKED: "marked"}
    machine = MachineUse("6.12", {name: changes.pop(key, 0) for name, key in counted.items()}, 0.0)
    values: dict[str, Any] = {
        "duration_s": 10,
        "aqm": "drop-tail",
        "memory_short": False,
        "rtt_before_ns": 80 * MS,
        "rtts_ns": tuple(group.rtt_ns or 80 * MS for group in contest.groups),
        "rtt_tolerance_ns": 10_000,
        "cached_metrics": 0,
        "drift": (),
        **changes,
    }
    return FlowEvidence(contest=contest, figures=found, queues=queues, machine=machine, **values)


def rows_of(shares: Sequence[Sequence[float]], intervals: int = 10) -> list[list[list[int]]]:
    """Flows with these constant shares of the line, of each group."""
    return [[[round(share * LINE)] * intervals for share in group] for group in shares]


def result(text: str, shares: Sequence[Sequence[float]], rtt_ns: int = 80 * MS, **changes: Any) -> FlowsResult:
    """A cell over 10 Gbit/s whose flows have these shares of the line all the time."""
    contest = Contest.parse(text)
    spec = replace(cell_spec(rtt_ns), workload=FlowsWorkload(contest), duration_s=10)
    own = {name: changes.pop(name) for name in ("drops_limit", "aqm", "rtt_before_ns") if name in changes}
    found = figures(contest, rows_of(shares), rtt_ns, **{"least_trip_us": rtt_ns // 1000, **changes})
    seen = evidence(contest, found, **{"rtt_before_ns": rtt_ns, **own})
    return FlowsResult(
        spec=spec,
        flows=found,
        queues=seen.queues,
        machine=seen.machine,
        delays=Delays(rtt_ns, None, None),
        judgement=flow_verdict.judge(path_of(spec), seen),
        notes=(),
        repeats=(found.groups[0].bytes_per_s,),
    )
