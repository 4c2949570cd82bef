"""The endpoints of recordings: start, watch and keep them, and replay them on a lane."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from flask import Response
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from werkzeug.exceptions import NotFound

from emulator import units
from emulator.analysis.statistics import Estimate
from emulator.config.field_types import Duration, Switch, Word, one_of, text_field
from emulator.errors import InputError, RefusedError
from emulator.model.topology import Lane
from emulator.record import file, recording, replay
from emulator.record.path_profile import Direction, PathProfile
from emulator.record.recording import RecordingPlan
from web.api.lanes import if_match, performed
from web.api.routing import CONFIRM, DRY_RUN, EndpointTable, Query, form_body
from web.api.schedule import TracesAnswer, trace_answer
from web.api.schemas import Answer, PlanAnswer
from web.context import here
from web.recordings import Recording, RecordingRequest

table = EndpointTable()
PLAN = RecordingPlan()
Tool = Annotated[
    str, text_field(one_of(*recording.TOOLS), "a tool"), WithJsonSchema({"type": "string", "enum": [*recording.TOOLS]})
]


class RecordingForm(BaseModel):
    """What to record and how: a lane that is up, from the hub's host to the site's, or the path from here to a host."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    lane: Word = ""
    host: Word = Field(default="", description="a name or an address; one of lane and host")
    name: Word = Field(default="", description="the recording's name; by default that of the lane or host")
    for_ns: Duration = Field(default=PLAN.for_ns, alias="for", description="how long; default 1min")
    every: Duration = Field(default=PLAN.every_ns, description="the probe interval, at least 10ms; default 100ms")
    by: Tool = Field(default=PLAN.by, description="auto: irtt where it answers, else ping")
    step: Duration = Field(default=PLAN.step_ns, description="the step of the trace over time; default 1s")
    rate: Switch = Field(default=False, description="also load each direction for 12 s; needs a server at a host")


class EstimateAnswer(Answer):
    """A figure and the interval that holds the true one with 99.9 %."""

    value: float
    low: float
    high: float


class RecordedDirectionAnswer(Answer):
    """One direction as netem plays it, in words of a topology file, and what was counted. Null where not known."""

    delay_ns: int
    jitter_ns: int
    loss: str
    rate_bps: int | None
    packets: int
    lost: EstimateAnswer = Field(description="share of the packets")
    burst: EstimateAnswer | None = Field(description="packets lost in a row")


class ProfileAnswer(Answer):
    """The path profile of a recording; the RTTs are in ns."""

    least_ns: int
    median_ns: EstimateAnswer
    p99_ns: EstimateAnswer
    outbound: RecordedDirectionAnswer
    inbound: RecordedDirectionAnswer


class RecordingAnswer(Answer):
    """A recording: recording, done, interrupted (a crash ended it; its profile can be computed) or failed.

    `at`, `tool`, `every_ns` and `ways` are null before the first probe. `probes`, `answered` and `last_ns` count those
    of an active recording so far. `profile` is null until its end.
    """

    name: str
    state: str
    label: str = Field(description="the lane or the host")
    at: str | None
    tool: str | None
    every_ns: int | None
    ways: str | None = Field(description="how round trips were split: measured, variation or assumed")
    began_ms: int | None
    for_ns: int | None
    probes: int
    answered: int
    last_ns: int | None
    step: str = Field(description="what an active recording does: begins, probes, rates, ends, profile")
    profile: ProfileAnswer | None
    trouble: str
    version: int = Field(description="of two events of a recording the one with the larger version is newer")


class RttCurveAnswer(Answer):
    """Round trips over time, in steps of equal length: their extremes, null without an answer, and the lost probes."""

    step_ns: int
    least_ns: list[int | None]
    most_ns: list[int | None]
    lost: list[int]


class RecordingsAnswer(Answer):
    """All recordings, the newest first."""

    recordings: list[RecordingAnswer]


def recording_answer(one: Recording) -> RecordingAnswer:
    """The answer about a recording."""
    of_source = {key: getattr(one.source, key, None) for key in ("at", "tool", "every_ns", "ways")}
    said = {key: getattr(one, key) for key in RecordingAnswer.model_fields if hasattr(one, key)}
    return RecordingAnswer(**said | of_source | {"profile": _profile(one.profile) if one.profile else None})


def _profile(one: PathProfile) -> ProfileAnswer:
    least_ns, median, p99 = one.rtt_ns
    ways = {"outbound": _direction(one.outbound), "inbound": _direction(one.inbound)}
    return ProfileAnswer(least_ns=least_ns, median_ns=_estimate(median), p99_ns=_estimate(p99), **ways)


def _direction(one: Direction) -> RecordedDirectionAnswer:
    return RecordedDirectionAnswer(
        delay_ns=one.delay_ns,
        jitter_ns=one.jitter_ns,
        loss=units.format_probability(one.loss) if isinstance(one.loss, int) else str(one.loss),
        rate_bps=one.rate_bps,
        packets=one.found.packets,
        lost=_estimate(one.found.lost),
        burst=_estimate(one.found.burst) if one.found.burst else None,
    )


@contextmanager
def _known(name: str) -> Iterator[None]:
    """Answer 404 where there is no such recording."""
    try:
        yield
    except KeyError:
        raise NotFound(f"no recording {name!r}") from None


def _folder(name: str) -> Path:
    with _known(name):
        return here().recordings.folder(name)


def _estimate(one: Estimate) -> EstimateAnswer:
    return EstimateAnswer(value=one.value, low=one.low, high=one.high)


@table("GET", "/api/recordings", RecordingsAnswer)
def get_recordings() -> RecordingsAnswer:
    """All recordings, the newest first."""
    return RecordingsAnswer(recordings=list(map(recording_answer, here().recordings.all())))


@table("POST", "/api/recordings", RecordingAnswer, status=201, body=RecordingForm, problems=(409, 503))
def start_recording() -> RecordingAnswer:
    """Record a path in the background: small probes at a fixed interval. One recording is made at a time."""
    form: RecordingForm = form_body(RecordingForm)
    plan = RecordingPlan(form.by, form.every, form.for_ns, form.step)
    return recording_answer(here().recordings.start(RecordingRequest(form.lane, form.host, form.name, plan, form.rate)))


@table("GET", "/api/recordings/<name>", RecordingAnswer, problems=(404,))
def get_recording(name: str) -> RecordingAnswer:
    """One recording."""
    with _known(name):
        return recording_answer(here().recordings.get(name))


@table("GET", "/api/recordings/<name>/curve", RttCurveAnswer, problems=(404,))
def get_rtt_curve(name: str) -> RttCurveAnswer:
    """The round trips of a recording over time; of an active one so far."""
    with _known(name):
        curve = here().recordings.curve(name)
    columns = ("least_ns", "most_ns", "lost")
    return RttCurveAnswer(step_ns=curve.step_ns, **{key: [getattr(one, key) for one in curve.steps] for key in columns})


@table("POST", "/api/recordings/<name>/stop", RecordingAnswer, problems=(404,))
def stop_recording(name: str) -> RecordingAnswer:
    """End an active recording early; what it has measured is kept."""
    with _known(name):
        return recording_answer(here().recordings.stop(name))


STEP = {"step": Query(units.parse_duration_ns, {"type": "string", "examples": ["1s"]}, "the step of the trace")}


@table("POST", "/api/recordings/<name>/profile", RecordingAnswer, query=STEP, problems=(404, 409))
def compute_profile(name: str, step: int = PLAN.step_ns) -> RecordingAnswer:
    """Compute the profile of a recording that a crash interrupted, from its probes."""
    with _known(name):
        return recording_answer(here().recordings.finish(name, step))


@table("DELETE", "/api/recordings/<name>", "", status=204, problems=(404, 409))
def delete_recording(name: str) -> str:
    """Delete a recording; lanes and schedules that replay it keep their settings."""
    with _known(name):
        here().recordings.remove(name)
    return ""


REPLAY = {
    "lane": Query(str, {"type": "string", "examples": ["london"]}, "the lane that replays it"),
    "dry_run": DRY_RUN,
    "confirm": CONFIRM,
}


@table("POST", "/api/recordings/<name>/replay", PlanAnswer, query=REPLAY, etag=True, problems=(404, 409, 503))
def replay_recording(name: str, lane: str = "", dry_run: bool = False, confirm: float | None = None) -> Response:
    """Give a lane the delays, jitter, losses and, where it was measured, the rate of a recording; the rest stays."""
    with _known(name):
        recorded = here().recordings.get(name).profile
    if recorded is None:
        raise RefusedError(f"{name} has no profile yet: stop it, or compute its profile")

    def replayed(before: Lane) -> Lane:
        try:
            return replay.onto(before, recorded)
        except ValueError as error:
            raise InputError.single(str(error), "query", "lane") from None

    usecases = here().usecases
    return performed(usecases.replace_lane(lane, replayed, if_match=if_match(), dry_run=dry_run, confirm_s=confirm))


@table("POST", "/api/recordings/<name>/traces", TracesAnswer, status=201, problems=(404, 503))
def import_recording(name: str) -> TracesAnswer:
    """Import both directions of a recording over time as traces, which a schedule may play."""
    folder, traces = _folder(name), here().traces
    found = []
    for direction in file.DIRECTIONS:
        trace, text = f"{name}-{direction}.csv", file.trace_text(folder, direction).encode()
        if keys := traces.keep(trace, 0, len(text), text):
            found.append(trace_answer(trace, keys))
    return TracesAnswer(traces=found)
