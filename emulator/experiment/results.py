"""The kinds of results, one for each kind of workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from emulator.analysis import statistics
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


def enough(results: Sequence[Result], most: int) -> bool:
    """Whether a cell needs no more repeats."""
    return bool(results) and statistics.enough([one.figure for one in results], most)


def of_kind(kind: type[R], found: Mapping[str, Result]) -> dict[str, R]:
    """The results of one kind, by id."""
    return {id: result for id, result in found.items() if isinstance(result, kind)}
