"""The endpoints of live data: the event stream, the last hour, test runs."""

from __future__ import annotations

import json
import os
from typing import Any

from flask import Response, send_file
from werkzeug.exceptions import NotFound, ServiceUnavailable

from emulator.errors import InputError, RefusedError, no_such
from emulator.experiment import cell_captures, grid
from emulator.experiment.cell_spec import CellSpec
from emulator.model import run_name
from web.api import programs
from web.api.routing import DRY_RUN, JSON, EndpointTable, Query, form_body, whole
from web.api.run_form import MOST_CELLS, OLD_WORDS, AxesAnswer, RenameForm, RunForm, axes_answer, program_mistakes
from web.api.run_schemas import ComparisonAnswer, RunAnswer, RunsAnswer, comparison_answer, run_answer
from web.api.schemas import Answer
from web.context import here
from web.live import MOST_WATCHERS, columns, overview
from web.runs import Run

table = EndpointTable()
REPORTS = {
    "md": "text/markdown; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": JSON,
}
PCAPNG = "application/x-pcapng"
LARGEST_RUN_BYTES = 64 << 20
NO_LAB = "this server has no lab"
REPORT_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"
"""A report is one file with its styles and figures. It may run no script and cannot act as one of our pages."""


class PastAnswer(Answer):
    """At most the last hour of one lane, as columns of equal length; null where a value is unknown."""

    lane: str
    columns: dict[str, list[int | float | None]]


class OverviewAnswer(Answer):
    """At most the last hour of all lanes: times, and by lane `asked_ns` and `median_ns` as columns of equal length."""

    at_ms: list[int]
    lanes: dict[str, dict[str, list[int | None]]]


@table("GET", "/api/events", "text/event-stream", problems=(503,))
def events() -> Response:
    """Server-sent events: `look` every second, progress (`run`, `verification`, `recording`), `trouble`."""
    channel = here().live.channel
    if channel.watchers >= MOST_WATCHERS:
        raise ServiceUnavailable(f"{MOST_WATCHERS} clients already watch the event stream", retry_after=10)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(channel.watch(), content_type="text/event-stream", headers=headers, direct_passthrough=True)


LAST = {"seconds": Query(whole(1, 3600), {"type": "string", "examples": ["300"]}, "how far back")}


@table("GET", "/api/lanes/<name>/past", PastAnswer, query=LAST)
def past(name: str, seconds: int = 300) -> PastAnswer:
    """The data of a lane's graphs, second by second."""
    topology = here().usecases.topology()
    if topology is None or name not in topology.sites:
        raise NotFound(no_such("lane", name, topology.sites if topology else ()))
    return PastAnswer(lane=name, columns=columns(list(here().live.looks)[-seconds:], name))


@table("GET", "/api/past", OverviewAnswer, query=LAST)
def past_of_all(seconds: int = 60) -> OverviewAnswer:
    """The requested and the measured RTT of all lanes, second by second."""
    topology = here().usecases.topology()
    looks = list(here().live.looks)[-seconds:]
    names = topology.sites if topology else ()
    return OverviewAnswer(at_ms=[look.at_ms for look in looks], lanes=overview(looks, names))


def _run_schema() -> dict[str, Any]:
    """The form as JSON: texts with units, as in a topology file."""
    fields = {name: {"description": f.description} if f.description else {} for name, f in RunForm.model_fields.items()}
    fields["workload"] |= programs.schema()
    command = {key: programs.example(key) for key in ("server", "ready", "client", "prepare")}
    examples = [
        {"rtt": ["0ms", "32ms", "80ms"], "tcp_profile": ["default", "max"], "streams": [1], "in_lab": True},
        {"rtt": ["10ms", "80ms"], "rate": "1Gbit", "workload": command, "in_lab": True},
    ]
    return {"type": "object", "properties": fields, "additionalProperties": False, "examples": examples}


@table("POST", "/api/runs", RunAnswer, status=201, body=_run_schema(), query={"dry_run": DRY_RUN}, problems=(409, 503))
def start_run(dry_run: bool = False) -> RunAnswer:
    """Start a test run; dry_run only returns its cells and their expected duration."""
    daemon, hints = here(), list[str]()
    form = form_body(RunForm, OLD_WORDS, hints, program_mistakes)
    if (combinations := form.combinations) > MOST_CELLS:
        raise InputError.single(f"{combinations} cells are too many: a run has at most {MOST_CELLS}", "request")
    programs.check_allowed(form.loads[0], in_lab=form.in_lab)
    if form.in_lab and not daemon.lab:
        raise InputError.single(f"{NO_LAB}: omit in_lab", "request", "in_lab")
    specs = daemon.runs.grid(form)
    if len(specs) > MOST_CELLS:
        raise InputError.single(f"{len(specs)} cells are too many: a run has at most {MOST_CELLS}", "request")
    _check_size(specs)
    answer = _planned(specs, form.in_lab) if dry_run else run_answer(daemon.runs.start(form))
    return answer.model_copy(update={"warnings": hints})


def _check_size(specs: list[CellSpec]) -> None:
    """Every cell is kept with the whole program. Raises InputError when they are larger than a run may be."""
    each_bytes = len(json.dumps(specs[0].to_json()))
    if (all_bytes := each_bytes * len(specs)) > LARGEST_RUN_BYTES:
        text = (
            f"{len(specs)} cells of {each_bytes >> 10} KiB each are {all_bytes >> 20} MiB, more than "
            f"{LARGEST_RUN_BYTES >> 20} MiB: make the files in prepare"
        )
        raise InputError.single(text, "request", "workload.files")


def _planned(specs: list[CellSpec], in_lab: bool) -> RunAnswer:
    answer = run_answer(Run("", "planned", in_lab, specs, {}))
    return answer.model_copy(update={"left_s": round(grid.cost_s(specs, 1, in_lab=in_lab), 1)})


@table("GET", "/api/axes", AxesAnswer)
def axes() -> AxesAnswer:
    """What a test run can vary: the axes, with their limits, as the command line and a topology file have them."""
    return axes_answer()


SEARCH = {"search": Query(str, {"type": "string"}, "only runs whose name or id contains these words")}


@table("GET", "/api/runs", RunsAnswer, query=SEARCH)
def runs(search: str = "") -> RunsAnswer:
    """All test runs, the newest first, with their names."""
    titles = here().runs.titles()
    found = [id for id in here().runs.names() if run_name.matches(search, titles.get(id, ""), id)]
    return RunsAnswer(runs=found, names={id: titles[id] for id in found if id in titles})


@table("PATCH", "/api/runs/<name>", RunAnswer, body=RenameForm, problems=(503,))
def rename_run(name: str) -> RunAnswer:
    """Give a test run another name, also while it is active; an empty one removes it."""
    _found(name)
    return run_answer(here().runs.rename(name, form_body(RenameForm).name))


@table("GET", "/api/runs/<name>", RunAnswer)
def run(name: str) -> RunAnswer:
    """One test run with the results so far."""
    return run_answer(_found(name))


OTHER = {"other": Query(str, {"type": "string"}, "the id of the run to compare with")}


@table("GET", "/api/runs/<name>/comparison", ComparisonAnswer, query=OTHER)
def run_comparison(name: str, other: str = "") -> ComparisonAnswer:
    """What changed from another run to this one by more than the uncertainty of both."""
    return comparison_answer(_found(other), _found(name))


@table("POST", "/api/runs/<name>/cancel", RunAnswer)
def cancel_run(name: str) -> RunAnswer:
    """Cancel a test run: its running cells finish first. A run that has ended stays as it is."""
    try:
        return run_answer(here().runs.cancel(name))
    except KeyError:
        raise NotFound(f"no run {name!r}") from None


@table("DELETE", "/api/runs/<name>", "", status=204, problems=(409,))
def delete_run(name: str) -> str:
    """Delete a test run that has ended, with its results; 409 while it is active."""
    try:
        here().runs.remove(name)
    except KeyError:
        raise NotFound(f"no run {name!r}") from None
    return ""


@table("POST", "/api/runs/<name>/resume", RunAnswer, problems=(409, 503))
def resume_run(name: str) -> RunAnswer:
    """Resume a stopped test run; finished cells are kept."""
    run = _found(name)
    if run.in_lab and not here().lab:
        raise RefusedError(f"{NO_LAB}: it cannot resume run {name}")
    programs.check_allowed(run.specs[0].workload, in_lab=run.in_lab)
    return run_answer(here().runs.resume(name))


def _format(text: str) -> str:
    if text not in REPORTS:
        raise ValueError(f"{text!r} is not a format: use {', '.join(REPORTS)}")
    return text


FORMAT = {"format": Query(_format, {"type": "string", "enum": list(REPORTS)}, "md unless said")}


@table("GET", "/api/runs/<name>/report", tuple(REPORTS.values()), query=FORMAT)
def run_report(name: str, format: str = "md") -> Response:
    """A run as tables (Markdown, CSV), as one page with figures (HTML), or with every measured value (JSON)."""
    _found(name)
    headers = {"Content-Security-Policy": REPORT_CSP} if format == "html" else {}
    return Response(here().runs.report(name, format), content_type=REPORTS[format], headers=headers)


@table("GET", "/api/runs/<name>/pcap/<measurement>/<file>", PCAPNG)
def run_capture(name: str, measurement: str, file: str) -> Response:
    """Frames that a cell's measurement captured, as pcapng for Wireshark."""
    try:
        frames = here().runs.capture(name, f"{cell_captures.FOLDER}/{measurement}/{file}")
    except KeyError:
        raise NotFound(f"run {name!r} has no captured frames {measurement}/{file}") from None
    answer = send_file(frames, PCAPNG, as_attachment=True, download_name=f"{measurement}.{file}", max_age=0)
    answer.content_length = os.fstat(frames.fileno()).st_size
    return answer


def _found(name: str) -> Run:
    try:
        return here().runs.get(name)
    except KeyError:
        raise NotFound(f"no run {name!r}") from None
