"""The `schedule:` of a topology file: its schema, and its conversion to the model."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from emulator import units
from emulator.config import schema
from emulator.config.field_types import Duration, Rtt, YesNo, not_text, one_of, text_field
from emulator.config.program_schema import ProgramForm
from emulator.config.request_schema import RequestsForm
from emulator.config.schema import Form, TopologyForm, said, settings_form
from emulator.config.sweep_schema import SweepForm
from emulator.model import traces
from emulator.model.impairment_keys import schedulable_keys
from emulator.model.schedule import (
    DOWN,
    NOW,
    RTT,
    STEP_NS,
    Keyframe,
    KeyframeMistake,
    Schedule,
    Start,
    Track,
    Value,
)
from emulator.system import bounded_file

_DAILY = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


def parse_start(text: str) -> Start:
    """ "now", "10s" later, "06:00" of every day (UTC), or a moment such as 2026-01-31T06:00:00Z. Raises ValueError."""
    if text == "now":
        return NOW
    if daily := _DAILY.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in daily.groups())
        return Start("daily", (hours * 3600 + minutes * 60 + seconds) * 10**9)
    if "T" in text:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a moment such as 2026-01-31T06:00:00Z") from None
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        return Start("at", (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000)
    return Start("now", units.parse_duration_ns(text))


def _lanes(value: object) -> tuple[str, ...]:
    if value == "all":
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError("this names no lanes: use a lane, a list of lanes, or all")
    return tuple(names)


TraceKeys = tuple[tuple[Keyframe, ...], int | None]
"""The keyframes of a trace, and the length after which it repeats, if it has one."""


def _trace(value: object, info: ValidationInfo) -> TraceKeys:
    """The keys of a trace file beside the topology, or of one that the context's `traces` knows."""
    if not isinstance(value, str):
        raise ValueError(not_text(value, "the name of a trace file"))
    context = info.context or {}
    if kept := context.get("traces"):
        return cast(TraceKeys, kept(value))
    folder = context.get("folder")
    if folder is None:
        raise ValueError(f"{value}: a request cannot name a trace file: use keys, or a topology file")
    path = Path(folder) / value
    try:
        text = bounded_file.read_text(path, bounded_file.TRACE, errors="replace")
    except OSError as error:
        raise ValueError(f"{value} cannot be read: {error.strerror}") from None
    return read_trace(value, text)


def read_trace(name: str, text: str) -> TraceKeys:
    """The keys of a trace of that name, which says its format. Raises ValueError."""
    try:
        return (traces.read_csv(text), None) if name.endswith(".csv") else traces.read_mahimahi(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


if TYPE_CHECKING:

    class _KeyframeSettings(Form): ...

else:
    _KeyframeSettings = settings_form("_KeyframeSettings", Form, schedulable_keys())


class KeyframeForm(_KeyframeSettings):
    """What holds from a time on."""

    at: Duration = Field(description="time since the schedule's start", examples=["0s", "90min"])
    ramp: YesNo | None = Field(
        default=None, description="yes: the values change in a straight line from the key before"
    )
    rtt: Rtt | None = Field(default=None, description="round-trip time, split evenly; for tracks of both directions")
    down: YesNo | None = Field(default=None, description="yes: everything is lost until a key says no")


class TrackForm(Form):
    """Keys, or a trace, of some lanes."""

    lanes: Annotated[tuple[str, ...], BeforeValidator(_lanes), WithJsonSchema({})] = Field(
        default=(),
        description="lanes that the track changes; default all",
        examples=["all", "london", ["london", "tokyo"]],
    )
    direction: Annotated[str, text_field(one_of("both", "outbound", "inbound"), "a direction")] = Field(
        default="both", description="direction that it changes; default both", examples=["both", "outbound", "inbound"]
    )
    keys: tuple[KeyframeForm, ...] = ()
    trace: Annotated[
        tuple[tuple[Any, ...], int | None] | None,
        BeforeValidator(_trace),
        WithJsonSchema({"type": "string", "examples": ["lte.csv", "cable.down"]}),
    ] = Field(
        default=None,
        description="instead of keys, a file: .csv with time, delay, rtt, jitter, loss or rate; else a mahimahi trace",
    )


class ScheduleForm(Form):
    """Changes over time, all lanes on one clock."""

    start: Annotated[Start, text_field(parse_start, "a start"), WithJsonSchema({"type": "string"})] = Field(
        default="now",
        validate_default=True,
        description="time 0 of the schedule: now (default), so much later, every day at a time (UTC), or at one moment",
        examples=["now", "10s", "06:00", "2026-01-31T06:00:00Z"],
    )
    loop: Duration | None = Field(
        default=None,
        description="the schedule begins again after this time; without it the last key holds",
        examples=["1min"],
    )
    step: Duration = Field(default=STEP_NS, description="how often ramps change; default 1s", examples=["100ms"])
    tracks: tuple[TrackForm, ...]


class FileForm(TopologyForm):
    """A Longhaul topology: a hub and its lanes."""

    schedule: ScheduleForm | None = None
    sweep: SweepForm = SweepForm()


def form_at(path: tuple[str, ...]) -> type[Form]:
    """The form that a path of the file is read with."""
    if path[:1] == ("sweep",):
        if path[1:2] != ("workload",):
            return SweepForm
        return RequestsForm if path[2:3] == ("requests",) else ProgramForm
    if path[:1] != ("schedule",):
        return schema.form_at(path) if path else FileForm
    return ScheduleForm if len(path) == 1 else TrackForm if len(path) == 3 else KeyframeForm


class TrackMistake(ValueError):
    """What is wrong with a part of a schedule; `path` is where, below the schedule."""

    def __init__(self, text: str, path: tuple[str, ...]) -> None:
        super().__init__(text)
        self.path = path


def meaning(form: ScheduleForm) -> Schedule:
    """The schedule that a form means. Raises ValueError; TrackMistake for what is wrong with one track."""
    loops = [track.trace[1] for track in form.tracks if track.trace and track.trace[1]]
    loop_ns = form.loop if form.loop is not None else max(loops, default=None)
    tracks = tuple(_placed(number, track) for number, track in enumerate(form.tracks))
    return Schedule(tracks, loop_ns, form.step, form.start)


def _placed(number: int, form: TrackForm) -> Track:
    """The track of that number, from 0. Raises TrackMistake."""
    here = ("tracks", str(number))
    try:
        return _track(form)
    except KeyframeMistake as error:
        raise TrackMistake(str(error), (*here, "trace") if form.trace else (*here, "keys", str(error.key))) from None
    except ValueError as error:
        raise TrackMistake(str(error), here) from None


def _track(form: TrackForm) -> Track:
    if bool(form.keys) == bool(form.trace):
        raise ValueError("a track needs either keys or a trace: use one of them")
    keys = form.trace[0] if form.trace else tuple(map(_key, form.keys))
    return Track(form.lanes, keys, form.direction)


def _key(form: KeyframeForm) -> Keyframe:
    values: list[tuple[str, Value]] = [] if form.rtt is None else [(RTT, form.rtt)]
    values += said(form).items()
    if form.down is not None:
        values.append((DOWN, int(form.down)))
    return Keyframe(form.at, tuple(values), bool(form.ramp))
