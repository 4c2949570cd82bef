"""The result of a cell of groups of flows, to JSON and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from msgspec.structs import replace

from emulator.analysis.flow_figures import FlowFigures
from emulator.analysis.flow_verdict import FlowJudgement
from emulator.analysis.request_figures import RequestTimes
from emulator.analysis.tcp_path import TcpPath
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.repeated_result import RepeatedResult
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


class FlowsResult(RepeatedResult, frozen=True, kw_only=True):
    """What the groups of the cell made of the lane, in groups.

    `repeats` are the rates of the first group (bytes/s); with several, `flows` has the times of the transfers of all
    measurements.
    """

    flows: FlowFigures
    judgement: FlowJudgement

    @property
    def contest(self) -> Contest:
        """The groups that shared the lane."""
        return contest_of(self.spec)

    def of_all(self, results: Sequence[Self]) -> dict[str, Any]:
        """The times of the transfers of all."""
        groups = tuple(
            replace(group, times=RequestTimes.joined([one.flows.groups[n].times for one in results]))
            for n, group in enumerate(self.flows.groups)
        )
        return {"flows": replace(self.flows, groups=groups)}
