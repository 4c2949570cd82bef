"""The result of a cell of requests, to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis.observed import CapturedFile, Delays, MachineUse, Queues
from emulator.analysis.request_figures import RequestFigures, RequestPaths
from emulator.analysis.request_verdict import RequestJudgement
from emulator.experiment import repeated_result
from emulator.experiment.cell_result import CellSpec
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.model.request_load import RequestLoad
from emulator.model.sweep_axes import INBOUND, OUTBOUND


def load_of(spec: CellSpec) -> RequestLoad:
    """The requests of a cell of requests."""
    assert isinstance(spec.workload, RequestsWorkload)
    return spec.workload.requests


def paths_of(spec: CellSpec) -> RequestPaths:
    """The lane from the client and to it; the client is at the end from which the cell's direction leads away."""
    back = INBOUND if spec.direction == OUTBOUND else OUTBOUND
    return RequestPaths(spec.path, replace(spec, direction=back).path)


class RequestsResult(Struct, frozen=True):
    """What the requests of the cell showed, in groups.

    `repeats` are the requests a second of all measurements of the cell; with several, this is the median measurement,
    with the times of all. `captures` are the paths in the run folder of all measurements' captures.
    """

    spec: CellSpec
    requests: RequestFigures
    queues: Queues
    machine: MachineUse
    delays: Delays
    judgement: RequestJudgement
    notes: tuple[str, ...]
    repeats: tuple[float, ...]
    captures: tuple[CapturedFile, ...] = ()

    @property
    def load(self) -> RequestLoad:
        """The requests that were sent."""
        return load_of(self.spec)

    @property
    def figure(self) -> float:
        """What repeats and runs are compared by: answered requests a second."""
        return self.requests.per_s(self.load)

    def to_json(self) -> dict[str, Any]:
        """The whole result by groups, with the format's number."""
        return repeated_result.to_json(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RequestsResult:
        """The inverse of `to_json`. Raises KeyError, TypeError, ValueError on anything else."""
        read: RequestsResult = repeated_result.from_json(cls, value)
        return read


def merged(results: Sequence[RequestsResult]) -> RequestsResult:
    """The measurements of one cell as one result: the median one, with the times of all and the objections to all."""
    middle = sorted(results, key=lambda one: one.figure)[(len(results) - 1) // 2]
    if len(results) == 1:
        return middle
    judgements = [one.judgement for one in (middle, *results)]
    return replace(
        middle,
        requests=middle.requests.with_times_of([result.requests for result in results]),
        judgement=replace(
            middle.judgement,
            invalid=repeated_result.reasons(one.judgement for one in results),
            findings=repeated_result.findings(judgements),
        ),
        repeats=tuple(result.figure for result in results),
        captures=tuple(file for result in results for file in result.captures),
    )
