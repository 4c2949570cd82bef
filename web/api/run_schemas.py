"""The API's answers about runs."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from emulator.experiment import attempts
from emulator.experiment.cell_result import CellResult, CellSpec
from emulator.experiment.program_result import ProgramResult
from emulator.experiment.requests_result import RequestsResult
from web.api.schemas import Answer
from web.runs import Run


class CellAnswer(Answer):
    """One cell: what is expected of it and, once it is done, what was measured. Throughput is payload received.

    `notes` tell what was tried again, and what could not be measured beside the throughput.
    """

    id: str
    lane: str
    rtt_ns: int
    column: str
    duration_s: int
    expected_bytes_per_s: float
    state: str
    rtt_measured_ns: int | None = None
    steady_bytes_per_s: float | None = None
    settled: bool | None = None
    completion_s: float | None = Field(default=None, description="of a program: its mean completion time")
    requests_per_s: float | None = Field(default=None, description="of requests: how many were answered a second")
    request_p50_ns: int | None = Field(default=None, description="of requests: the median time of one")
    request_p99_9_ns: int | None = Field(default=None, description="of requests: the 99.9th percentile of their times")
    limiter: str | None = None
    invalid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str | None = None


class RunAnswer(Answer):
    """A run: running, done or stopped; `left_s` is an estimate, `warnings` name what to change in the request."""

    id: str
    state: str
    trouble: str
    in_lab: bool
    total: int
    finished: int
    left_s: float
    cells: list[CellAnswer]
    warnings: list[str] = Field(default_factory=list)


class RunsAnswer(Answer):
    """The ids of all runs, the newest first."""

    runs: list[str]


def run_answer(run: Run) -> RunAnswer:
    """The answer about a run."""
    cells = [_cell(spec, run) for spec in run.specs]
    finished = sum(cell.state != "waiting" for cell in cells)
    return RunAnswer(
        id=run.id, state=run.state, trouble=run.trouble, in_lab=run.in_lab, total=len(cells), finished=finished,
        left_s=round(run.left_s, 1), cells=cells,
    )  # fmt: skip


def _of_requests(result: RequestsResult) -> dict[str, Any]:
    times = result.requests.times
    return {"requests_per_s": result.figure, "request_p50_ns": times.p50_ns, "request_p99_9_ns": times.p99_9_ns}


def _cell(spec: CellSpec, run: Run) -> CellAnswer:
    result, failure = run.found.get(spec.id), run.failures.get(spec.id)
    return CellAnswer(
        id=spec.id,
        lane=spec.lane.name,
        rtt_ns=spec.lane.rtt_ns,
        column=spec.column,
        duration_s=spec.duration_s,
        expected_bytes_per_s=spec.expected_bytes_per_s,
        state="done" if result else "failed" if failure else "waiting",
        rtt_measured_ns=result.delays.rtt_ns if result else None,
        steady_bytes_per_s=result.steady_bytes_per_s if isinstance(result, CellResult) else None,
        settled=result.throughput.settled if isinstance(result, CellResult) else None,
        completion_s=result.figure if isinstance(result, ProgramResult) else None,
        **(_of_requests(result) if isinstance(result, RequestsResult) else {}),
        limiter=result.judgement.limiter if result else None,
        invalid=result.judgement.invalid if result else (),
        notes=tuple(attempts.noted(result.judgement.findings)) if result else (),
        failure=failure,
    )
