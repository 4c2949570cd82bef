"""The API's answers about runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from pydantic import Field

from emulator.analysis import request_figures
from emulator.analysis.observed import CapturedFile
from emulator.analysis.program_law import ProgramLaw
from emulator.analysis.tcp_path import NS
from emulator.experiment import attempts, compare_runs, results
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.compare_runs import CellComparison
from emulator.experiment.flows_result import FlowsResult
from emulator.experiment.program_result import ProgramResult
from emulator.experiment.requests_result import RequestsResult, load_of, paths_of
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.hosts.tools.program import ProgramWorkload
from emulator.hosts.tools.workload import Workload
from emulator.report import flow_table, program_report, request_table
from emulator.report.program_table import ProgramRow, series_of
from emulator.report.table_kinds import tables_of
from web.api.schemas import Answer
from web.runs import Run

REQUEST_COLUMNS = request_table.DETAILS[1:-1]
"""Of requests, without the RTT and the limit, which every run has."""


class CaptureAnswer(Answer):
    """A file of captured frames: its path below the run's (`/api/runs/<name>/`), and how many the port lost."""

    path: str
    frames: int
    dropped: int
    sha256: str


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
    half_width_bytes_per_s: float | None = Field(default=None, description="its 99 % half-width; null after one run")
    settled: bool | None = None
    completion_s: float | None = Field(default=None, description="of a program: its mean completion time")
    requests_per_s: float | None = Field(default=None, description="of requests: how many were answered a second")
    request_p50_ns: int | None = Field(default=None, description="of requests: the median time of one")
    request_p99_9_ns: int | None = Field(default=None, description="of requests: the 99.9th percentile of their times")
    request_texts: tuple[str, ...] = Field(default=(), description="of requests: the texts below `request_columns`")
    ceiling_per_s: float | None = Field(
        default=None, description="of requests: how many a second the round trips, the line and the offered rate allow"
    )
    completion_half_width_s: float | None = Field(default=None, description="its 99 % half-width; null after one run")
    round_trips: float | None = Field(default=None, description="the completion time / the RTT; null at RTT 0")
    efficiency: float | None = Field(default=None, description="the ideal time / the completion time")
    connections: int | None = Field(default=None, description="the TCP connections of the median run")
    law_completion_s: float | None = Field(default=None, description="what the law of its program says; null without")
    ideal_s: float | None = Field(default=None, description="one handshake, and a program's bytes at the line's rate")
    shares: str = Field(default="", description="of groups of flows: what each has of the throughput, and Jain's index")
    group_texts: tuple[tuple[str, ...], ...] = Field(
        default=(), description="of groups of flows: for each the texts below `group_columns`"
    )
    limiter: str | None = None
    evidence: str | None = Field(default=None, description="what shows that this limited it")
    advice: str | None = Field(default=None, description="the setting that would help most; empty when none is known")
    invalid: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str | None = None
    captures: tuple[CaptureAnswer, ...] = ()


class WorkloadAnswer(Answer):
    """The program of a run: its commands, "" for one that it does not have, and how often each cell runs its client."""

    name: str
    client: str
    server: str
    ready: str
    prepare: str
    prepare_client: str
    bytes: int | None
    repeat: int
    packages: list[str]


class RunAnswer(Answer):
    """A run: running, done or stopped; `left_s` is an estimate, `warnings` name what to change in the request.

    `workload` is null for streams. `laws` are sentences on what a program costs, one for each TCP profile and
    whatever else was varied besides RTT and rate; `savings` say what would shorten it most.
    """

    id: str
    name: str = Field(default="", description="what a user calls the run; empty for none")
    state: str
    trouble: str
    building: str = Field(default="", description="what is built for the run's labs at present; empty when nothing is")
    in_lab: bool
    total: int
    finished: int
    left_s: float
    workload: WorkloadAnswer | None = None
    request_columns: list[str] = Field(
        default_factory=list, description="of requests: the columns of the command line's table; empty for others"
    )
    group_columns: list[str] = Field(
        default_factory=list,
        description="of groups of flows: the columns of the command line's table; else empty",
    )
    legend: str = Field(default="", description="of requests and of groups of flows: what the columns say")
    cells: list[CellAnswer]
    laws: list[str] = Field(default_factory=list)
    savings: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class ChangeAnswer(Answer):
    """One cell of two runs: its figures as texts with their uncertainty, and how much they differ.

    `share` is by how much the figure changed: 0.1 is a tenth more. `word` is same, faster, slower or REGRESSION: `same`
    where the difference lies within the uncertainty of both.
    """

    id: str
    before: str
    after: str
    unit: str = Field(description="bytes_per_s (the texts are MiB/s, and Gbit/s in brackets), s or requests_per_s")
    before_limiter: str
    after_limiter: str
    share: float | None
    differs: bool
    word: str


class ComparisonAnswer(Answer):
    """Two runs cell by cell, as `longhaul compare` has it; the ids of cells that only one of them has measured."""

    before: str
    after: str
    changes: list[ChangeAnswer]
    only_before: list[str]
    only_after: list[str]


def comparison_answer(before: Run, after: Run) -> ComparisonAnswer:
    """What changed beyond the noise from one run to another."""
    changes = compare_runs.changes(before.found, after.found)
    both = {change.id for change in changes}
    return ComparisonAnswer(
        before=before.id,
        after=after.id,
        changes=[_change(change) for change in changes],
        only_before=[id for id in before.found if id not in both],
        only_after=[id for id in after.found if id not in both],
    )


def _change(change: CellComparison) -> ChangeAnswer:
    # After one measurement the uncertainty is unknown.
    texts = [tables_of([one.spec]).figure_text(one).removesuffix(" ± -") for one in (change.before, change.after)]
    return ChangeAnswer(
        id=change.id,
        before=texts[0],
        after=texts[1],
        unit=change.unit,
        before_limiter=change.before.judgement.limiter,
        after_limiter=change.after.judgement.limiter,
        share=change.share,
        differs=change.differs,
        word=change.word,
    )


class RunsAnswer(Answer):
    """The ids of all runs, the newest first, and by id the names of those that have one."""

    runs: list[str]
    names: dict[str, str]


class _Programs(Struct, frozen=True):
    """What the cells of programs show together: their rows and what the law says of them, by cell, and sentences."""

    rows: Mapping[str, ProgramRow] = field(default_factory=dict)
    law_s: Mapping[str, float] = field(default_factory=dict)
    laws: tuple[str, ...] = ()
    savings: tuple[str, ...] = ()


def _programs(run: Run) -> _Programs:
    found = results.of_kind(ProgramResult, run.found)
    ids = [spec.id for spec in run.specs if spec.id in found]
    rows = dict(zip(ids, program_report.rows(run.specs, found), strict=True))
    all = series_of(list(rows.values()))
    laws = {one.name: one.law for one in all}
    law_s = {}
    for id, row in rows.items():
        law = laws[row.series]
        if isinstance(law, ProgramLaw) and row.point in law.points:
            law_s[id] = law.completion_s(row.point)
    said = tuple(f"{one.name}: {one.law_text}" for one in all)
    return _Programs(rows, law_s, said, tuple(f"{one.name}, {one.advice}" for one in all if one.advice))


def run_answer(run: Run) -> RunAnswer:
    """The answer about a run."""
    programs = _programs(run)
    groups = flow_table.group_rows(results.of_kind(FlowsResult, run.found))
    cells = [_cell(spec, run, programs, groups) for spec in run.specs]
    requests, flows = (_all_run(run, kind) for kind in (RequestsWorkload, FlowsWorkload))
    finished = sum(cell.state != "waiting" for cell in cells)
    return RunAnswer(
        id=run.id, name=run.name, state=run.state, trouble=run.trouble, building=run.building, in_lab=run.in_lab,
        total=len(cells), finished=finished, left_s=round(run.left_s, 1),
        workload=_workload(run.specs[0]) if run.specs else None,
        request_columns=list(REQUEST_COLUMNS) if requests else [],
        group_columns=list(flow_table.GROUP_COLUMNS) if flows else [],
        legend=request_table.LEGEND if requests else flow_table.LEGEND if flows else "",
        cells=cells, laws=list(programs.laws), savings=list(programs.savings),
    )  # fmt: skip


def _all_run(run: Run, kind: type[Workload]) -> bool:
    """Whether the cells of a run are of this kind of workload."""
    return bool(run.specs) and isinstance(run.specs[0].workload, kind)


def _of_streams(result: CellResult) -> dict[str, Any]:
    return {
        "steady_bytes_per_s": result.steady_bytes_per_s,
        "half_width_bytes_per_s": result.half_width if math.isfinite(result.half_width) else None,
        "settled": result.throughput.settled,
    }


def _of_flows(result: FlowsResult, groups: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """All groups together, and each."""
    told = {"shares": flow_table.shares(result), "group_texts": groups}
    return {"steady_bytes_per_s": result.flows.bytes_per_s, "settled": True, **told}


def _of_requests(result: RequestsResult) -> dict[str, Any]:
    times = result.requests.times
    return {
        "requests_per_s": result.figure,
        "request_p50_ns": times.p50_ns,
        "request_p99_9_ns": times.p99_9_ns,
        "request_texts": request_table.row(result)[: len(REQUEST_COLUMNS)],
    }


def _ceiling_per_s(spec: CellSpec) -> float | None:
    """How many requests a second are possible; None for other workloads."""
    if not isinstance(spec.workload, RequestsWorkload):
        return None
    return request_figures.ceiling(load_of(spec), paths_of(spec))


def _of_program(row: ProgramRow) -> dict[str, Any]:
    return {
        "completion_s": row.mean_s,
        "completion_half_width_s": row.half_s if math.isfinite(row.half_s) else None,
        "round_trips": row.round_trips,
        "efficiency": row.judgement.efficiency,
        "connections": len(row.program.median.connections),
    }


def _workload(spec: CellSpec) -> WorkloadAnswer | None:
    if not isinstance(spec.workload, ProgramWorkload):
        return None
    one = spec.workload.program
    return WorkloadAnswer(
        name=one.name,
        client=one.client,
        server=one.server,
        ready=str(one.ready or ""),
        prepare=one.prepare,
        prepare_client=one.prepare_client,
        bytes=one.bytes,
        repeat=one.repeat,
        packages=list(one.packages),
    )


def _cell(
    spec: CellSpec, run: Run, programs: _Programs, groups: Mapping[str, tuple[tuple[str, ...], ...]]
) -> CellAnswer:
    row = programs.rows.get(spec.id)
    ideal_ns = program_report.ideal_ns(spec) if isinstance(spec.workload, ProgramWorkload) else None
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
        **(_of_streams(result) if isinstance(result, CellResult) else {}),
        **(_of_flows(result, groups[spec.id]) if isinstance(result, FlowsResult) else {}),
        **(_of_requests(result) if isinstance(result, RequestsResult) else {}),
        **(_of_program(row) if row else {}),
        law_completion_s=programs.law_s.get(spec.id),
        ceiling_per_s=_ceiling_per_s(spec),
        ideal_s=ideal_ns / NS if ideal_ns else None,
        limiter=result.judgement.limiter if result else None,
        evidence=result.judgement.evidence if result else None,
        advice=result.judgement.advice if result else None,
        invalid=result.judgement.invalid if result else (),
        notes=tuple(attempts.noted(result.judgement.findings)) if result else (),
        failure=failure,
        captures=tuple(map(_capture, result.captures)) if result else (),
    )


def _capture(file: CapturedFile) -> CaptureAnswer:
    return CaptureAnswer(path=file.name, frames=file.frames, dropped=file.dropped, sha256=file.sha256)
