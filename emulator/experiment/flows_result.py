"""The result of a cell of groups of flows, to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis.flow_figures import FlowFigures
from emulator.analysis.flow_verdict import FlowJudgement
from emulator.analysis.observed import CapturedFile, Delays, MachineUse, Queues
from emulator.analysis.request_figures import RequestTimes
from emulator.analysis.tcp_path import TcpPath
from emulator.experiment import repeated_result
from emulator.experiment.cell_result import CellSpec
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.model.flow_group import Contest


def contest_of(spec: CellSpec) -> Contest:
    """The groups of a cell of flows."""
    assert isinstance(spec.workload, FlowsWorkload)
    return spec.workload.contest


def path_of(spec: CellSpec) -> TcpPath:
    """The path of the data, with as many streams as all groups have flows."""
    contest = contest_of(spec)
    first = contest.groups[0].congestion_control
    return replace(spec.path, streams=sum(group.flows for group in contest.groups), congestion_control=first)


class FlowsResult(Struct, frozen=True):
    """What the groups of the cell made of the lane, in groups.

    `repeats` are the rates of the first group (bytes/s) of all measurements of the cell; with several, this is the
    median measurement, with the times of the transfers of all. `captures` are the paths in the run folder of all
    measurements' captures.
    """

    spec: CellSpec
    flows: FlowFigures
    queues: Queues
    machine: MachineUse
    delays: Delays
    judgement: FlowJudgement
    notes: tuple[str, ...]
    repeats: tuple[float, ...]
    captures: tuple[CapturedFile, ...] = ()

    @property
    def contest(self) -> Contest:
        """The groups that shared the lane."""
        return contest_of(self.spec)

    @property
    def figure(self) -> float:
        """What repeats and runs are compared by: the first group's rate, at least 1 byte/s, for shares are taken."""
        return max(1.0, self.flows.groups[0].bytes_per_s)

    def to_json(self) -> dict[str, Any]:
        """The whole result by groups, with the format's number."""
        return repeated_result.to_json(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FlowsResult:
        """The inverse of `to_json`. Raises KeyError, TypeError, ValueError on anything else."""
        read: FlowsResult = repeated_result.from_json(cls, value)
        return read


def merged(results: Sequence[FlowsResult]) -> FlowsResult:
    """The measurements of one cell as one result: the median one, with the times and the objections of all."""
    middle = sorted(results, key=lambda one: one.figure)[(len(results) - 1) // 2]
    if len(results) == 1:
        return middle
    judgements = [one.judgement for one in (middle, *results)]
    groups = tuple(
        replace(group, times=RequestTimes.joined([one.flows.groups[n].times for one in results]))
        for n, group in enumerate(middle.flows.groups)
    )
    return replace(
        middle,
        flows=replace(middle.flows, groups=groups),
        judgement=replace(
            middle.judgement,
            invalid=repeated_result.reasons(one.judgement for one in results),
            findings=repeated_result.findings(judgements),
        ),
        repeats=tuple(result.figure for result in results),
        captures=tuple(file for result in results for file in result.captures),
    )
