"""Converts topology files (YAML) to `model.Topology` and back; reports every mistake at once, each with its line.

`schema` defines what a user may write; `_lane` and `_direction` convert it. Loss, jitter, rate and buffer apply to each
direction exactly as given: only the RTT is split.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml
from msgspec.structs import replace
from pydantic import ValidationError

from emulator.config import old_words, program_schema, schedule_schema, writer, yaml_source
from emulator.config.schedule_schema import FileForm, ScheduleForm, TraceKeys, TrackMistake, form_at
from emulator.config.schema import DefaultsForm, DirectionForm, FlowForm, Form, LaneForm, said
from emulator.config.shipped_topologies import resolve
from emulator.errors import InputError
from emulator.model.flow_match import Match
from emulator.model.impairment import Impairment
from emulator.model.timeline import Timeline
from emulator.model.topology import MOST_LANES, Flow, Lane, Ports, Topology, split_delays
from emulator.system import bounded_file


def load(path: str | Path, hints: list[str] | None = None) -> Topology:
    """Read a topology file, or the one shipped under that name. Appends hints about old words to `hints`.

    Raises InputError with every mistake in it.
    """
    path = resolve(path)
    return loads(_text(path), str(path), path.parent, hints)


def load_sweep(path: str | Path, hints: list[str] | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """The `sweep` section of a topology file: the given values by key, in the units of `Axes`, and their "file:line".

    `workload` is a mapping, of the settings of `Program`, or of `requests`, `against` and `pairs`; their places are
    `workload.KEY`. Appends hints about old words to `hints`. Raises InputError.
    """
    path = resolve(path)
    source = yaml_source.read(_text(path), str(path))
    form = _validated(source, path.parent).head
    if hints is not None:
        hints += source.hints
    source.raise_mistakes()
    assert form is not None
    given = {key: value for key, value in form.sweep if key != "workload" and value is not None}
    places = {key: source.at(("sweep", key)) for key in given}
    if form.sweep.workload:
        given["workload"] = program_schema.settings(form.sweep.workload)
        keys = [*given["workload"], *(f"files.{name}" for name in given["workload"].get("files", ()))]
        places |= {f"workload.{key}": source.at(("sweep", "workload", *key.split(".", 1))) for key in keys}
        if requests := form.sweep.workload.requests:
            given["workload"]["requests"] = requests.model_dump(exclude_none=True)
            places["workload.requests"] = source.at(("sweep", "workload", "requests"))
        for key in ("against", "pairs"):
            if flows := getattr(form.sweep.workload, key):
                given["workload"][key] = flows
                places[f"workload.{key}"] = source.at(("sweep", "workload", key))
        places["workload"] = source.at(("sweep", "workload"))
    return given, places


def _text(path: str | Path) -> str:
    try:
        return bounded_file.read_text(Path(path), bounded_file.TOPOLOGY)
    except OSError as error:
        raise InputError.single(f"cannot be read: {error.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise InputError.single("is not a text file in UTF-8", str(path)) from None


def loads(text: str, where: str = "topology", folder: Path | None = None, hints: list[str] | None = None) -> Topology:
    """Read a topology from YAML text, called `where` in mistakes. Raises InputError with every mistake in it.

    It reads the distributions' tables that the text names from `folder`; with None it reads no files.
    """
    return build(yaml_source.read(text, where), folder, hints)


def build(source: yaml_source.Source, folder: Path | None = None, hints: list[str] | None = None) -> Topology:
    """The topology of a source's tree. Raises InputError with every mistake in it, including earlier ones."""
    forms = _validated(source, folder)
    lanes, form = _lanes(source, forms), forms.head
    if hints is not None:
        hints += source.hints
    source.raise_mistakes()
    assert form is not None
    keys = ("subnet", "seed", "on_drift", "hub_host", "datapath", "on_failure")
    optional = {key: value for key in keys if (value := getattr(form, key)) is not None}
    try:
        topology = Topology(form.name, form.hub, tuple(lanes), **optional)
    except ValueError as error:
        source.wrong((_blamed(str(error)),), str(error))
        source.raise_mistakes()
        raise
    return _scheduled(topology, form.schedule, source)


def scheduled(topology: Topology, source: yaml_source.Source, traces: Callable[[object], TraceKeys]) -> Topology:
    """The topology with the schedule that is the source's tree. `traces` knows the keys of a trace by its name.

    Raises InputError with every mistake, each at its path below `schedule`.
    """
    form = read(source, None, ScheduleForm, source.tree, ("schedule",), traces=traces)
    source.raise_mistakes()
    assert form
    return _scheduled(topology, form, source)


def _scheduled(topology: Topology, form: ScheduleForm | None, source: yaml_source.Source) -> Topology:
    """The topology with its schedule. A schedule that makes a lane invalid at any time is a mistake."""
    if form is None:
        return topology
    try:
        schedule = schedule_schema.meaning(form)
        scheduled = replace(topology, schedule=schedule)
        Timeline(scheduled, schedule)
    except ValueError as error:
        source.wrong(("schedule", *(error.path if isinstance(error, TrackMistake) else ())), str(error))
        source.raise_mistakes()
        raise
    return scheduled


def _blamed(text: str) -> str:
    """The key that a contradiction between parts of the topology is shown at."""
    blamed = {"subnet": "subnet", "hub_host": "hub_host"}
    blamed |= dict.fromkeys(("port", "address", "names ", "too many lanes"), "lanes")
    return next((key for word, key in blamed.items() if text.startswith(word)), "hub")


@dataclass
class _Forms:
    """The validated parts of a file. An invalid part is None; `lanes` lacks invalid lanes."""

    head: FileForm | None
    defaults: DefaultsForm | None
    lanes: dict[str, LaneForm]


def _validated(source: yaml_source.Source, folder: Path | None) -> _Forms:
    """Validate the parts of the file and note the mistakes."""
    old_words.renew(source)
    assert isinstance(source.tree, dict)
    apart = {key: part for key in ("defaults", "lanes") if isinstance(part := source.tree.get(key, {}), dict)}
    head = {key: part for key, part in source.tree.items() if key not in apart}
    form_of = partial(read, source, folder)
    if (count := len(apart.get("lanes", {}))) > MOST_LANES:
        # Before each is read: that would take minutes.
        source.wrong(("lanes",), f"too many lanes: {count}, {MOST_LANES} at most")
        source.raise_mistakes()
    lanes = {name: form_of(LaneForm, tree, ("lanes", name)) for name, tree in apart.get("lanes", {}).items()}
    return _Forms(
        form_of(FileForm, head, ()),
        form_of(DefaultsForm, apart["defaults"], ("defaults",)) if "defaults" in apart else None,
        {name: form for name, form in lanes.items() if form},
    )


F = TypeVar("F", bound=Form)


def read(
    source: yaml_source.Source,
    folder: Path | None,
    form: type[F],
    tree: yaml_source.Tree,
    at: yaml_source.Path,
    form_at: Callable[[yaml_source.Path], type[Form]] = form_at,
    traces: Callable[[object], TraceKeys] | None = None,
) -> F | None:
    """Validate the part of a source at the path `at`; with mistakes, note them and return None.

    It reads the files that the part names from `folder`; with None it reads none. `form_at` knows each path's schema,
    `traces` the keys of a trace that is no file.
    """
    try:
        return form.model_validate(tree, context={"folder": folder, "traces": traces})
    except ValidationError as invalid:
        for error in invalid.errors():
            path = (*at, *(str(part) for part in error["loc"]))
            source.wrong(path, explain(error, path, form_at))
        return None


def explain(error: Any, path: yaml_source.Path, form_at: Callable[[yaml_source.Path], type[Form]]) -> str:
    """The text of a mistake that pydantic found: what is wrong, then what to use. `form_at` knows each path's form."""
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "missing":
            return "is missing"
        case "extra_forbidden":
            known = list(form_at(path[:-1]).model_fields)
            if close := difflib.get_close_matches(path[-1], known, 1):
                return f"unknown key; did you mean {close[0]!r}?"
            return f"unknown key; the keys are {', '.join(known)}"
        case _:
            return not_a_mapping(error["input"])


def not_a_mapping(value: object) -> str:
    """What is wrong with a value where keys belong."""
    return f"{value!r} is not a mapping: use KEY: VALUE"


def _lanes(source: yaml_source.Source, forms: _Forms) -> list[Lane]:
    """Every valid lane; notes the contradictions of the others."""
    if forms.defaults is None:
        return []
    lanes = []
    for name, form in forms.lanes.items():
        try:
            lanes.append(_lane(name, form, forms.defaults))
        except ValueError as error:
            source.wrong(("lanes", name), str(error))
    return lanes


def _lane(name: str, form: LaneForm, defaults: DefaultsForm) -> Lane:
    """Build a lane from its form. Raises ValueError on contradictions."""
    measured: dict[str, DirectionForm] = form.path_profile or {"outbound": DirectionForm(), "inbound": DirectionForm()}
    outbound_ns, inbound_ns = _delays(form, measured)
    lane = Lane(
        name,
        outbound=_direction(outbound_ns, form.outbound, form, measured["outbound"], defaults),
        inbound=_direction(inbound_ns, form.inbound, form, measured["inbound"], defaults),
        flows=tuple(_flow(*flow, outbound_ns, inbound_ns) for flow in form.flows.items()),
        ports=Ports(form.ports.hub, form.ports.site, form.ports.vlan) if form.ports else None,
        off=form.disabled,
        host=form.host,
        address=form.address,
    )
    mtu = form.mtu if form.mtu is not None else defaults.mtu
    line = form.line_rate if form.line_rate is not None else defaults.line_rate
    return replace(
        lane,
        mtu=lane.mtu if mtu is None else mtu,
        line_rate_bps=lane.line_rate_bps if line is None else line,
    )


def _delays(form: LaneForm, measured: Mapping[str, DirectionForm]) -> tuple[int, int]:
    """Both delays in ns: the lane's own, else the path profile's. Raises ValueError."""
    own = _said_delays(form)
    if form.rtt is not None:
        return split_delays(form.rtt, *own)
    then = (said(measured[way]).get("delay_ns") for way in ("outbound", "inbound"))
    return split_delays(None, *(one if one is not None else was for one, was in zip(own, then, strict=True)))


def _said_delays(form: LaneForm | FlowForm) -> tuple[int | None, int | None]:
    """The one-way delays (outbound, inbound) that a lane or a flow gives itself, in ns."""
    return said(form.outbound).get("delay_ns"), said(form.inbound).get("delay_ns")


def _flow(name: str, form: FlowForm, outbound_ns: int, inbound_ns: int) -> Flow:
    """Build a flow from its form, on a lane with these delays."""
    own = _said_delays(form)
    if form.rtt is not None:
        outbound_ns, inbound_ns = split_delays(form.rtt, *own)
    else:
        both = zip(own, (outbound_ns, inbound_ns), strict=True)
        outbound_ns, inbound_ns = (one if one is not None else lanes for one, lanes in both)
    try:
        ways = (_direction(outbound_ns, form.outbound, form), _direction(inbound_ns, form.inbound, form))
        return Flow(name, Match(**form.match.model_dump()), *ways)
    except ValueError as error:
        raise ValueError(f"flow {name}: {error}") from None


def _direction(delay_ns: int, own: DirectionForm, *wider: Form) -> Impairment:
    """Build one direction. Its own settings override those of the wider forms, the nearest first."""
    fields: dict[str, Any] = {}
    for form in (*reversed(wider), own):
        fields |= said(form)
    return Impairment(**fields | {"delay_ns": delay_ns})


def dumps(topology: Topology) -> str:
    """YAML text that `loads` reads back to an equal topology."""
    return yaml.safe_dump(writer.tree(topology), sort_keys=False, default_flow_style=None, width=1000)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a topology file, for editors."""
    return FileForm.model_json_schema()
