"""The kinds of results, one for each kind of workload: reads, merges and compares them by the same calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from emulator.analysis import statistics
from emulator.experiment import flows_result, merge, program_result, requests_result
from emulator.experiment.cell_result import CellResult
from emulator.experiment.flows_result import FlowsResult
from emulator.experiment.program_result import ProgramResult
from emulator.experiment.requests_result import RequestsResult
from emulator.experiment.result_migrations import migrated

Result = CellResult | ProgramResult | RequestsResult | FlowsResult
R = TypeVar("R", CellResult, ProgramResult, RequestsResult, FlowsResult)


def from_json(value: Mapping[str, Any]) -> Result:
    """A result of any kind and format. Raises KeyError, TypeError, ValueError, InputError on anything else."""
    if "requests" in value:
        return RequestsResult.from_json(value)
    if "flows" in value:
        return FlowsResult.from_json(value)
    return ProgramResult.from_json(value) if "program" in value else CellResult.from_json(migrated(dict(value)))


def figure(result: Result) -> float:
    """What the repeats of a cell are compared by: throughput in bytes/s (of groups of flows the first one's), a
    program's completion time in s, or requests a second."""
    return result.steady_bytes_per_s if isinstance(result, CellResult) else result.figure


def merged(results: Sequence[Result]) -> Result:
    """The repeats of one cell as one result."""
    if isinstance(results[0], ProgramResult):
        return program_result.merged(cast("Sequence[ProgramResult]", results))
    if isinstance(results[0], RequestsResult):
        return requests_result.merged(cast("Sequence[RequestsResult]", results))
    if isinstance(results[0], FlowsResult):
        return flows_result.merged(cast("Sequence[FlowsResult]", results))
    return merge.merge(cast("Sequence[CellResult]", results))


def enough(results: Sequence[Result], most: int) -> bool:
    """Whether a cell needs no more repeats."""
    return bool(results) and statistics.enough([figure(one) for one in results], most)


def of_kind(kind: type[R], found: Mapping[str, Result]) -> dict[str, R]:
    """The results of one kind, by id."""
    return {id: result for id, result in found.items() if isinstance(result, kind)}
