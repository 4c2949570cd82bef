"""The endpoints of the schedule: what it is, how it is drawn, its changes, and the traces that it may play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, make_response, request
from msgspec.structs import asdict, replace
from pydantic import Field
from werkzeug.exceptions import NotFound, UnsupportedMediaType

from emulator import units
from emulator.config import loader, writer, yaml_source
from emulator.config.schedule_schema import ScheduleForm, TraceKeys
from emulator.control.machine_context import Phase
from emulator.control.status_document import etag_of
from emulator.errors import InputError
from emulator.model.schedule import LONGEST_NS, Schedule
from emulator.model.topology import Topology
from emulator.plan.scheduled_state import timeline_of
from emulator.report import schedule_points
from emulator.report.schedule_chart import span_ns
from emulator.report.schedule_points import DrawnCurve
from web.api.routing import CONFIRM, DRY_RUN, JSON, EndpointTable, Query, json_body
from web.api.schemas import Answer, PlanAnswer, StepAnswer, step_answers
from web.context import here
from web.performed import ScheduleChange
from web.traces import MANY_KEYS

table = EndpointTable()
OCTETS = "application/octet-stream"


class ScheduleAnswer(Answer):
    """The schedule of what is up as in a topology file; null without one. `at_ns` is its own time at present.

    While a measurement has the lanes it is the schedule that returns.
    """

    topology: str | None
    hub: str | None
    lanes: list[str]
    schedule: dict[str, Any] | None = Field(
        description="a track with many keys has the name of its trace instead, which a change understands"
    )
    at_ns: int | None = Field(description="below 0 before its start; null without a schedule")
    loop_ns: int | None
    last_ns: int | None = Field(description="the time of the last key")


class HandleAnswer(Answer):
    """A key of a curve: its time, its value (null: no bottleneck), and whether a ramp leads to it."""

    at_ns: int
    value: float | None
    ramp: bool


class CurveAnswer(Answer):
    """One setting of one track over time. `unit` is ns, bit/s, share (0 to 1) or switch (0 or 1).

    Each of `points` is a time in ns and the value from then on. A trace has no handles.
    """

    track: int
    key: str
    unit: str
    points: list[tuple[int, float | None]]
    handles: list[HandleAnswer]
    keys: int
    before: float | None = Field(description="what the lanes have before the first key; null where they differ")


class DrawingAnswer(Answer):
    """A schedule over time, as the lanes would follow it."""

    span_ns: int
    loop_ns: int | None
    curves: list[CurveAnswer]


class ComingAnswer(Answer):
    """What the schedule changes at a time of its own: in words, and in the kernel."""

    at_ns: int
    words: list[str]
    steps: list[StepAnswer]


class SchedulePlanAnswer(PlanAnswer):
    """A change of the schedule: the steps of now, what is different in words, and what the schedule changes first."""

    differences: list[str]
    coming: list[ComingAnswer]


class TraceAnswer(Answer):
    """An imported trace; `loop_ns` is the time after which it repeats. `trouble`: why it cannot be played."""

    name: str
    keys: int
    last_ns: int
    settings: list[str] = Field(description="what it sets, by the keys of a schedule")
    loop_ns: int | None
    trouble: str


class TracesAnswer(Answer):
    """All imported traces, by name."""

    traces: list[TraceAnswer]


class PartAnswer(Answer):
    """A part of a trace has come; `trace` is the whole one once the last part has."""

    received: int
    trace: TraceAnswer | None


def _phase(text: str) -> Phase:
    if text == "kept":
        return "kept"
    at_ns = units.parse_duration_ns(text)
    if at_ns > LONGEST_NS:
        raise ValueError(f"{text!r} is later than {units.format_duration(LONGEST_NS)}")
    return at_ns


AT = Query(
    _phase,
    {"type": "string", "examples": ["kept", "90min"]},
    "the schedule's own time at which it goes on; kept: where the present schedule is; by default another schedule "
    "begins as its start says",
)


def _topology() -> Topology:
    if (topology := here().usecases.lasting()) is None:
        raise NotFound("nothing is up")
    return topology


def _wanted(topology: Topology) -> Topology:
    """What is up with the schedule in the body. Raises InputError with every mistake in it."""
    source = yaml_source.of_json(json_body(), "request")
    return loader.scheduled(topology, source, here().traces.finder(topology.schedule))


@table("GET", "/api/schedule", ScheduleAnswer, etag=True)
def get_schedule() -> Response:
    """The schedule of what is up, and where it is."""
    usecases = here().usecases
    topology, status = usecases.lasting(), usecases.status()
    schedule = topology.schedule if topology else None
    answer = ScheduleAnswer(
        topology=topology.name if topology else None,
        hub=topology.hub if topology else None,
        lanes=list(topology.sites) if topology else [],
        schedule=_tree(schedule) if schedule else None,
        at_ns=status.played_ns,
        loop_ns=schedule.loop_ns if schedule else None,
        last_ns=schedule.last_ns if schedule else None,
    )
    response = make_response(answer.model_dump_json())
    response.content_type, response.headers["ETag"] = JSON, etag_of(topology)
    return response


def _tree(schedule: Schedule) -> dict[str, Any]:
    """The schedule as in a file, with the names of its traces."""
    tree: dict[str, Any] = writer.schedule_tree(schedule)
    for track, said in zip(schedule.tracks, tree["tracks"], strict=True):
        if len(track.keys) > MANY_KEYS:
            said["trace"] = here().traces.name_of(track.keys)
            del said["keys"]
    return tree


@table("GET", "/api/schedule/drawing", DrawingAnswer, problems=(404,))
def schedule_drawing() -> DrawingAnswer:
    """How the schedule of what is up goes on over time."""
    return _drawing(_topology())


@table("POST", "/api/schedule/drawing", DrawingAnswer, body=ScheduleForm, problems=(404,))
def draw_schedule() -> DrawingAnswer:
    """Check a schedule for what is up, and say how it would go on over time; nothing is changed."""
    return _drawing(_wanted(_topology()))


def _drawing(topology: Topology) -> DrawingAnswer:
    if (timeline := timeline_of(topology)) is None:
        return DrawingAnswer(span_ns=0, loop_ns=None, curves=[])
    curves = [_curve(one) for one in schedule_points.drawn(timeline)]
    return DrawingAnswer(span_ns=span_ns(timeline), loop_ns=timeline.schedule.loop_ns, curves=curves)


def _curve(one: DrawnCurve) -> CurveAnswer:
    handles = [HandleAnswer(at_ns=at_ns, value=value, ramp=ramp) for at_ns, value, ramp in one.handles]
    return CurveAnswer.model_validate(asdict(one) | {"handles": handles})


CHANGE = {"dry_run": DRY_RUN, "confirm": CONFIRM}
PHASED = CHANGE | {"at": AT}


@table("PUT", "/api/schedule", SchedulePlanAnswer, body=ScheduleForm, query=PHASED, etag=True, problems=(409, 503))
def put_schedule(dry_run: bool = False, confirm: float | None = None, at: Phase = None) -> Response:
    """Give what is up this schedule; the lanes' own settings stay."""
    if_match = request.headers.get("If-Match", "")
    usecases = here().usecases
    return _answer(usecases.schedule(_wanted, if_match=if_match, dry_run=dry_run, confirm_s=confirm, phase=at))


@table("DELETE", "/api/schedule", SchedulePlanAnswer, query=CHANGE, etag=True, problems=(409, 503))
def delete_schedule(dry_run: bool = False, confirm: float | None = None) -> Response:
    """Remove the schedule: the lanes return to their own settings."""

    def without(topology: Topology) -> Topology:
        return replace(topology, schedule=None)

    if_match = request.headers.get("If-Match", "")
    return _answer(here().usecases.schedule(without, if_match=if_match, dry_run=dry_run, confirm_s=confirm))


@table("POST", "/api/schedule/jump", SchedulePlanAnswer, query=PHASED, etag=True, problems=(409, 503))
def jump(dry_run: bool = False, confirm: float | None = None, at: Phase = None) -> Response:
    """Let the schedule go on from another time of its own (`at`); without one, begin it again as its start says."""

    def unchanged(topology: Topology) -> Topology:
        if topology.schedule is None:
            raise InputError.single("there is no schedule: give the lanes one first", "request")
        return topology

    if_match, usecases = request.headers.get("If-Match", ""), here().usecases
    phase = "anew" if at is None else at
    return _answer(usecases.schedule(unchanged, if_match=if_match, dry_run=dry_run, confirm_s=confirm, phase=phase))


def _answer(change: ScheduleChange) -> Response:
    done = change.performed
    answer = SchedulePlanAnswer(
        summary=done.summary,
        changed=bool(done.steps) or bool(change.differences),
        performed=done.performed,
        steps=step_answers(done.steps),
        warnings=list(done.warnings),
        differences=list(change.differences),
        coming=[
            ComingAnswer(at_ns=one.at_ns, words=list(one.words), steps=step_answers(one.steps)) for one in change.coming
        ],
    )
    response = make_response(answer.model_dump_json())
    response.content_type, response.headers["ETag"] = JSON, done.etag
    return response


@table("GET", "/api/traces", TracesAnswer)
def get_traces() -> TracesAnswer:
    """The imported traces: a track of a schedule may name one."""
    return TracesAnswer(traces=[_trace(name) for name in here().traces.names()])


def _trace(name: str) -> TraceAnswer:
    try:
        return trace_answer(name, here().traces.read(name))
    except (KeyError, ValueError) as error:  # deleted meanwhile, or spoilt
        return TraceAnswer(name=name, keys=0, last_ns=0, settings=[], loop_ns=None, trouble=str(error))


def trace_answer(name: str, found: TraceKeys) -> TraceAnswer:
    """The answer about a trace that can be played."""
    keys, loop_ns = found
    words = dict.fromkeys(schedule_points.word(field) for key in keys for field, _ in key.values)
    last_ns = keys[-1].at_ns if keys else 0
    return TraceAnswer(name=name, keys=len(keys), last_ns=last_ns, settings=list(words), loop_ns=loop_ns, trouble="")


PART = {
    "name": Query(str, {"type": "string", "examples": ["lte.csv"]}, "the name to keep it by; .csv says its format"),
    "offset": Query(units.parse_count, {"type": "string", "examples": ["0"]}, "where in the file the body begins"),
    "total": Query(units.parse_count, {"type": "string", "examples": ["20"]}, "the size of the whole file in bytes"),
}
A_PART: Mapping[str, Any] = {"type": "string", "format": "binary"}


@table("POST", "/api/traces", PartAnswer, body=A_PART, body_types=(OCTETS,), query=PART, problems=(503,))
def import_trace(name: str = "", offset: int = 0, total: int | None = None) -> PartAnswer:
    """Import a trace, in parts that follow one another; a file that is none, or too large, is refused."""
    if request.mimetype != OCTETS:
        raise UnsupportedMediaType(f"send the body as {OCTETS}")
    part = request.get_data()
    found = here().traces.keep(name, offset, len(part) if total is None else total, part)
    return PartAnswer(received=offset + len(part), trace=trace_answer(name, found) if found else None)


@table("DELETE", "/api/traces/<name>", "", status=204)
def delete_trace(name: str) -> str:
    """Delete an imported trace; a schedule that plays it keeps its keys."""
    try:
        here().traces.remove(name)
    except KeyError:
        raise NotFound(f"no trace {name!r}") from None
    return ""
