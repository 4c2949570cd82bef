"""A partial lane over a lane that is there: what is named changes, all else stays (RFC 7396 merge patch). Pure.

The same rules as `longhaul set`: an `rtt` alone splits evenly anew; jitter, loss, rate and the like hold for both
directions unless said inside `outbound` or `inbound`; `null` takes a setting away. `flows` are laid over the lane's by
name, each by these rules; a new one becomes the last, `null` takes one away, or all of them. A lane that is off comes
into effect by another delay, or by `disabled: false`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from emulator.config import loader, writer, yaml_source
from emulator.errors import InputError
from emulator.model.topology import Topology

DIRECTIONS = ("outbound", "inbound")
FLOWS, MATCH, OFF = "flows", "match", "disabled"
WHOLE = ("mtu", "line_rate", "ports")
"""What a patch may not name: it belongs to the ports, and changes with the topology."""


def patched(topology: Topology, name: str, patch: Mapping[str, Any], where: str = "request") -> Topology:
    """The topology with a partial lane, a tree of JSON values, laid over the lane called `name`.

    Raises InputError with every mistake, each at its path below `lanes.NAME`.
    """
    if name not in topology.sites:
        text = f"no such lane; there are {', '.join(topology.sites) or 'none'}"
        raise InputError.single(text, where, f"lanes.{name}")
    _check_shape(patch, name, yaml_source.Source(where, lined=False))
    merged = _merge_lane(lane_tree(topology, name), patch)
    tree = writer.tree(replace(topology, lanes=(topology.lane(name),)))
    source = yaml_source.of_json(tree | {"lanes": {name: merged}}, where)
    return topology.with_lane(loader.build(source).lane(name))


def lane_tree(topology: Topology, name: str) -> dict[str, Any]:
    """The lane as a topology file may hold it, with everything said per direction, delays included."""
    lane = topology.lane(name)
    tree = writer.lane_tree(lane, apart=True)
    return {key: dict(value) if isinstance(value, dict) else value for key, value in tree.items()}


def _check_shape(patch: Mapping[str, Any], name: str, source: yaml_source.Source) -> None:
    for key in WHOLE:
        if key in patch:
            source.wrong(("lanes", name, key), "belongs to the ports: change the topology instead")
    _check_mappings(patch, DIRECTIONS, ("lanes", name), source)
    flows = {} if patch.get(FLOWS) is None else patch[FLOWS]
    _check_mappings({FLOWS: flows}, (FLOWS,), ("lanes", name), source)
    for flow, said in flows.items() if isinstance(flows, dict) else ():
        whole = {} if said is None else said
        _check_mappings({flow: whole}, (flow,), ("lanes", name, FLOWS), source)
        if isinstance(whole, dict):
            _check_mappings(whole, (*DIRECTIONS, MATCH), ("lanes", name, FLOWS, flow), source)
    source.raise_mistakes()


def _check_mappings(
    tree: Mapping[str, Any], keys: Iterable[str], path: tuple[str, ...], source: yaml_source.Source
) -> None:
    for key in keys:
        if key in tree and not isinstance(tree[key], dict):
            source.wrong((*path, key), f"a mapping was expected, not {tree[key]!r}")


def _merge_lane(tree: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The lane's tree after the patch."""
    merged = _merge(tree, patch, (FLOWS, OFF))
    if OFF in patch or "rtt" in patch or any("delay" in patch.get(side, {}) for side in DIRECTIONS):
        merged[OFF] = patch.get(OFF)
    if FLOWS in patch:
        merged[FLOWS] = _merge_flows(tree.get(FLOWS, {}), patch[FLOWS])
    return _without_nulls(merged)


def _merge_flows(now: Mapping[str, Any], patch: Mapping[str, Any] | None) -> dict[str, Any]:
    """The flows after the patch; those that are there keep their order."""
    if patch is None:
        return {}
    said = {name: None if flow is None else _merge_flow(now.get(name, {}), flow) for name, flow in patch.items()}
    return _without_nulls({**now, **said})


def _merge_flow(tree: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A flow's tree after the patch."""
    merged = _merge(tree, patch, (MATCH,))
    if MATCH in patch:
        merged[MATCH] = _without_nulls(tree.get(MATCH, {}) | patch[MATCH])
    return merged


def _merge(tree: Mapping[str, Any], patch: Mapping[str, Any], apart: Collection[str]) -> dict[str, Any]:
    """Both directions after the patch, settings per direction; `apart` are the keys that are no settings of theirs."""
    common = {key: value for key, value in patch.items() if key not in (*DIRECTIONS, *apart, "rtt")}
    merged = dict(tree)
    for key in DIRECTIONS:
        own = dict(tree.get(key, {}))
        if "rtt" in patch:
            own.pop("delay", None)
        merged[key] = _without_nulls(own | common | patch.get(key, {}))
    if patch.get("rtt") is not None:
        merged["rtt"] = patch["rtt"]
    return merged


def _without_nulls(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}
