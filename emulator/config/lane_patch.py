"""Converts a partial lane of a request (RFC 7396 merge patch) to a `LanePatch` and back.

An `rtt` alone is split evenly again. Jitter, loss, rate and the other settings apply to both directions unless they
are inside `outbound` or `inbound`. `null` removes a setting. `flows` are merged by name, each by these rules; a new
flow becomes the last one, and `null` deletes one flow, or all of them. A new delay, or `disabled: false`, enables a
lane that is off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace
from pydantic import Field

from emulator.config import loader, old_words, writer, yaml_source
from emulator.config.field_types import Rtt, Switch
from emulator.config.schema import DirectionForm, Form, MatchForm, said, settings_form
from emulator.config.yaml_source import Path, Source
from emulator.errors import InputError, Mistake, no_such
from emulator.model import flow_match, lane_set
from emulator.model.flow_match import Match
from emulator.model.impairment_keys import KEYS, at_rest, shared_keys
from emulator.model.lane_patch import LanePatch
from emulator.model.topology import Lane, Topology
from emulator.units import compact, format_duration

DIRECTIONS = ("outbound", "inbound")
FLOWS, MATCH, OFF = "flows", "match", "disabled"
WHOLE = ("mtu", "line_rate", "ports")
"""Keys that a patch must not contain: they belong to the ports, and only a new topology changes them."""

if TYPE_CHECKING:

    class _PatchSettings(Form): ...

else:
    _PatchSettings = settings_form("_PatchSettings", Form, shared_keys())


class FlowPatchForm(_PatchSettings):
    """A partial flow of the lane; a new flow needs a match."""

    match: MatchForm | None = None
    rtt: Rtt | None = Field(default=None, description="round-trip time, split evenly")
    outbound: DirectionForm = DirectionForm()
    inbound: DirectionForm = DirectionForm()


class LanePatchForm(_PatchSettings):
    """A partial lane; omitted settings stay."""

    rtt: Rtt | None = Field(default=None, description="round-trip time, split evenly")
    disabled: Switch | None = Field(
        default=None, description="true: delay, jitter and loss are kept but have no effect"
    )
    outbound: DirectionForm = DirectionForm()
    inbound: DirectionForm = DirectionForm()
    flows: dict[str, FlowPatchForm] = Field(default={})


def patched(
    topology: Topology, name: str, patch: Mapping[str, Any], where: str = "request", hints: list[str] | None = None
) -> Topology:
    """The topology with a partial lane, a tree of JSON values, merged into the lane called `name`.

    Raises InputError with every mistake, each at its path below `lanes.NAME`; a contradiction to the schedule is one,
    with its time. Appends hints about old words to `hints`.
    """
    if name not in topology.sites:
        raise InputError.single(no_such("lane", name, topology.sites), where, f"lanes.{name}")
    lane, change = topology.lane(name), parse(name, patch, where, hints)
    known = [flow.name for flow in lane.flows]
    for flow, one in (change.flows or {}).items():
        if one and not one.match and flow not in known:
            raise InputError.single("is missing", where, f"lanes.{name}.{FLOWS}.{flow}.{MATCH}")
    try:
        return lane_set.replaced(topology, change.apply(lane))
    except ValueError as error:
        raise InputError.single(str(error), where, f"lanes.{name}") from None


def all_patched(topology: Topology, patches: Mapping[str, Mapping[str, Any]], hints: list[str]) -> Topology:
    """The topology with partial lanes merged into the lanes of these names.

    Raises InputError with the mistakes of all of them. Appends hints about old words to `hints`.
    """
    wrong: list[Mistake] = []
    for name, patch in patches.items():
        try:
            topology = patched(topology, name, patch, hints=hints)
        except InputError as error:
            wrong += error.mistakes
    if wrong:
        raise InputError(wrong)
    return topology


def parse(name: str, patch: Mapping[str, Any], where: str = "request", hints: list[str] | None = None) -> LanePatch:
    """Convert a request's partial lane. Raises InputError with every mistake."""
    at = ("lanes", name)
    given, nulls = _split(patch)
    source = yaml_source.of_json({}, where)
    _check_shape(patch, at, source)
    tree = yaml_source.texts(given, source, at)
    form = loader.read(source, None, LanePatchForm, old_words.renew_lane(source, tree, at), at, partial(_form_at, at))
    nulls = cast("dict[str, Any]", old_words.renew_lane(source, nulls, at))
    _check_nulls(nulls, at, source)
    source.raise_mistakes()
    assert form is not None
    if hints is not None:
        hints += source.hints
    flows: dict[str, LanePatch | None] = {
        flow: None if one is None else _meaning(form.flows[flow], nulls.get(FLOWS, {}).get(flow, {}))
        for flow, one in (patch.get(FLOWS) or {}).items()
    }
    gone = FLOWS in patch and patch[FLOWS] is None
    return replace(_meaning(form, nulls), off=_off(form, nulls), flows=None if gone else flows)


def _split(tree: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tree of JSON values without its nulls, and its nulls without the values."""
    given, nulls = dict[str, Any](), dict[str, Any]()
    for key, value in tree.items():
        if isinstance(value, dict):
            given[key], nulls[key] = _split(value)
        elif value is None:
            nulls[key] = None
        else:
            given[key] = value
    return given, nulls


def _check_shape(patch: Mapping[str, Any], at: Path, source: Source) -> None:
    """Note every value that must be a mapping and is not, and every key that belongs to the ports."""
    for key in WHOLE:
        if key in patch:
            source.wrong((*at, key), "a patch cannot change the ports: send a new topology")
    _check_mappings(patch, DIRECTIONS, at, source)
    flows = {} if patch.get(FLOWS) is None else patch[FLOWS]
    _check_mappings({FLOWS: flows}, (FLOWS,), at, source)
    for flow, one in flows.items() if isinstance(flows, dict) else ():
        whole = {} if one is None else one
        _check_mappings({flow: whole}, (flow,), (*at, FLOWS), source)
        if isinstance(whole, dict):
            _check_mappings(whole, (*DIRECTIONS, MATCH), (*at, FLOWS, flow), source)


def _check_mappings(tree: Mapping[str, Any], keys: Iterable[str], path: Path, source: Source) -> None:
    for key in keys:
        if key in tree and not isinstance(tree[key], dict):
            source.wrong((*path, key), loader.not_a_mapping(tree[key]))


def _check_nulls(nulls: Mapping[str, Any], path: Path, source: Source) -> None:
    """Note every null at an unknown key."""
    for key, value in nulls.items():
        if value is not None:
            _check_nulls(value, (*path, key), source)
        elif path[-1] != FLOWS and key not in (known := _form_at(path[:2], path).model_fields):
            source.wrong((*path, key), f"unknown key; the keys are {', '.join(known)}")


def _form_at(at: Path, path: Path) -> type[Form]:
    """The schema of a path in a partial lane at `at`."""
    own = path[len(at) :]
    if own[:1] == (FLOWS,):
        return FlowPatchForm if len(own) == 2 else MatchForm if own[2] == MATCH else DirectionForm
    return DirectionForm if own else LanePatchForm


def _meaning(form: LanePatchForm | FlowPatchForm, nulls: Mapping[str, Any]) -> LanePatch:
    """Both directions of a lane or of a flow, and the flow's match."""
    common = _fields(form, nulls) | ({"delay_ns": None} if "rtt" in nulls else {})
    outbound = common | _fields(form.outbound, nulls.get("outbound", {}))
    inbound = common | _fields(form.inbound, nulls.get("inbound", {}))
    match = getattr(form, MATCH, None)
    none = dict.fromkeys(nulls.get(MATCH, {}))
    return LanePatch(form.rtt, outbound, inbound, match=match.model_dump(exclude_none=True) | none if match else None)


def _fields(form: Form, nulls: Mapping[str, Any]) -> dict[str, Any]:
    """The given fields of Impairment; a null sets its key's fields to no effect."""
    fields = said(form) | at_rest(key for key in KEYS if key.name in nulls)
    return fields | ({"delay_ns": None} if "delay" in nulls else {})


def _off(form: LanePatchForm, nulls: Mapping[str, Any]) -> bool | None:
    return False if "disabled" in nulls else form.disabled


def lane_tree(lane: Lane) -> dict[str, Any]:
    """The lane as in a topology file, with all settings and delays per direction."""
    tree = writer.lane_tree(lane, apart=True)
    return {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}


def tree(patch: LanePatch) -> dict[str, Any]:
    """A patch as JSON values of a request: the inverse of `parse`."""
    found = _settings_tree(patch)
    if patch.off is not None:
        found[OFF] = patch.off
    if patch.flows is None:
        found[FLOWS] = None
    elif patch.flows:
        found[FLOWS] = {name: None if one is None else _flow_tree(one) for name, one in patch.flows.items()}
    return found


def _flow_tree(patch: LanePatch) -> dict[str, Any]:
    found = _settings_tree(patch)
    if patch.match is not None:
        given = {name: value for name, value in patch.match.items() if value is not None}
        found[MATCH] = dict.fromkeys(patch.match) | (flow_match.tree(Match(**given)) if given else {})
    return found


def _settings_tree(patch: LanePatch) -> dict[str, Any]:
    rtt = {} if patch.rtt_ns is None else {"rtt": compact(format_duration(patch.rtt_ns))}
    return rtt | {side: way for side in DIRECTIONS if (way := _way_tree(getattr(patch, side)))}


def _way_tree(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A direction's keys; null for those without effect, except the delay."""
    keys = [key for key in KEYS if fields.keys() >= set(key.fields)]
    values = [(key, {name: fields[name] for name in key.fields}) for key in keys]
    return {key.name: key.write(one) if one != key.rest or "delay_ns" in one else None for key, one in values}
