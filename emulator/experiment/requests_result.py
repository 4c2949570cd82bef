"""The result of a cell of requests, to JSON and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from msgspec.structs import replace

from emulator.analysis.request_figures import RequestFigures, RequestPaths
from emulator.analysis.request_verdict import RequestJudgement
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.repeated_result import RepeatedResult
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


class RequestsResult(RepeatedResult, frozen=True, kw_only=True):
    """What the requests of the cell showed, in groups.

    `repeats` are requests a second; with several, `requests` has the times of all measurements.
    """

    requests: RequestFigures
    judgement: RequestJudgement

    @property
    def load(self) -> RequestLoad:
        """The requests that were sent."""
        return load_of(self.spec)

    def of_all(self, results: Sequence[Self]) -> dict[str, Any]:
        """The times of all."""
        return {"requests": self.requests.with_times_of([result.requests for result in results])}
