"""Topology files: YAML to `model.Topology` and back, every mistake at once, each with its line.

`topologyform` says what a user may write; `_lane` and `_direction` give it its meaning. Loss, jitter,
rate and buffer hold per direction, exactly as given: nothing is ever halved.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from emulator import scheduleform, units, yamltree
from emulator.errors import InputError
from emulator.model import Buffer, Impairment, Lane, Ports, Topology, split_delays, split_rtt
from emulator.scheduleform import FileForm, form_at
from emulator.timeline import Timeline
from emulator.topologyform import DefaultsForm, DirectionForm, LaneForm


def load(path: str | Path) -> Topology:
    """Read a topology file. Raises InputError with every mistake in it."""
    return loads(_text(path), str(path), Path(path).parent)


def load_sweep(path: str | Path) -> dict[str, Any]:
    """The `sweep` section of a topology file, what is given of it: by key, in the model's units. Raises InputError."""
    source = yamltree.read(_text(path), str(path))
    form = _validated(source, Path(path).parent)
    source.raise_mistakes()
    assert form is not None
    return form.sweep.model_dump(exclude_none=True)


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise InputError.single(f"cannot be read: {error.strerror}", str(path)) from None
    except UnicodeDecodeError:
        raise InputError.single("is not a text file in UTF-8", str(path)) from None


def loads(text: str, where: str = "topology", folder: Path | None = None) -> Topology:
    """Read a topology from YAML text, called `where` in mistakes. Raises InputError with every mistake in it.

    Tables of distributions that it names are looked for in `folder`; None reads no files at all.
    """
    return build(yamltree.read(text, where), folder)


def build(source: yamltree.Source, folder: Path | None = None) -> Topology:
    """The topology that a source's tree stands for. Raises InputError with every mistake in it, earlier ones too."""
    assert isinstance(source.tree, dict)
    form = _validated(source, folder)
    lanes = _lanes(source, folder)
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
    return _scheduled(topology, form, source)


def _scheduled(topology: Topology, form: FileForm, source: yamltree.Source) -> Topology:
    """The topology with its schedule; what that would make impossible at any time is a mistake."""
    if form.schedule is None:
        return topology
    try:
        schedule = scheduleform.meaning(form.schedule, topology.sites)
        Timeline(topology, schedule)
    except ValueError as error:
        source.wrong(("schedule",), str(error))
        source.raise_mistakes()
        raise
    return replace(topology, schedule=schedule)


def _blamed(text: str) -> str:
    """The key that a contradiction between parts of the topology is shown at."""
    blamed = {"subnet": "subnet", "port": "lanes", "address": "lanes", "hub_host": "hub_host"}
    return next((key for word, key in blamed.items() if text.startswith(word)), "hub")


def _validated(source: yamltree.Source, folder: Path | None) -> FileForm | None:
    """The file as a form, or None with the mistakes noted."""
    try:
        return FileForm.model_validate(source.tree, context={"folder": folder})
    except ValidationError as invalid:
        for error in invalid.errors():
            path = tuple(str(part) for part in error["loc"])
            source.wrong(path, _explain(error, path))
        return None


def _explain(error: Any, path: yamltree.Path) -> str:
    """What pydantic found wrong, in our words: what was found and what was expected."""
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "missing":
            return "is missing"
        case "extra_forbidden":
            known = list(form_at(path[:-1]).model_fields)
            if close := difflib.get_close_matches(path[-1], known, 1):
                return f"unknown key; did you mean {close[0]!r}?"
            return f"unknown key; {', '.join(known)} are known here"
        case _:
            return f"a mapping was expected, not {error['input']!r}"


def _lanes(source: yamltree.Source, folder: Path | None) -> list[Lane]:
    """Every lane that can be built; the contradictions of the others are noted beside the earlier mistakes."""
    assert isinstance(source.tree, dict)
    lanes, context = [], {"folder": folder}
    forms = source.tree.get("lanes")
    try:
        defaults = DefaultsForm.model_validate(source.tree.get("defaults", {}), context=context)
        for name, tree in forms.items() if isinstance(forms, dict) else ():
            try:
                lanes.append(_lane(name, LaneForm.model_validate(tree, context=context), defaults))
            except ValidationError:
                continue
            except ValueError as error:
                source.wrong(("lanes", name), str(error))
    except ValidationError:
        return []
    return lanes


def _lane(name: str, form: LaneForm, defaults: DefaultsForm) -> Lane:
    """What a lane's form means. Raises ValueError on contradictions."""
    outbound_ns, inbound_ns = split_delays(form.rtt, form.outbound.delay, form.inbound.delay)
    lane = Lane(
        name,
        outbound=_direction(outbound_ns, form.outbound, form, defaults),
        inbound=_direction(inbound_ns, form.inbound, form, defaults),
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


def _direction(delay_ns: int, own: DirectionForm, lane: LaneForm, defaults: DefaultsForm) -> Impairment:
    """One direction: its own word first, then the lane's, then the defaults'."""

    def said(key: str) -> Any:
        return next((v for form in (own, lane, defaults) if (v := getattr(form, key)) is not None), None)

    parts, loss = said("buffer"), said("loss") or 0
    return Impairment(
        delay_ns,
        jitter_ns=said("jitter") or 0,
        loss_p32=loss if isinstance(loss, int) else 0,
        rate_bps=said("rate") or None,
        buffer=Buffer(**parts) if parts else None,
        distribution=said("distribution") or "uniform",
        keep_order=said("order") != "free",
        loss_model=None if isinstance(loss, int) else loss,
        duplicate_p32=said("duplicate") or 0,
        **(said("corrupt") or {}),
        reorder_p32=said("reorder") or 0,
        ecn=said("ecn") or False,
        overhead_bytes=said("overhead") or 0,
        atm=said("cells") == "atm",
        queue=said("queue") or "drop-tail",
        seed=own.seed,
    )


def dumps(topology: Topology) -> str:
    """YAML text that `loads` reads back to an equal topology."""
    return yaml.safe_dump(tree(topology), sort_keys=False, default_flow_style=None, width=1000)


def tree(topology: Topology) -> dict[str, Any]:
    """The topology as a file holds it."""
    found: dict[str, Any] = {
        "name": topology.name,
        "hub": topology.hub,
        **({"hub_host": topology.hub_host} if topology.hub_host else {}),
        "subnet": str(topology.subnet),
        "seed": topology.seed,
        "on_drift": topology.on_drift,
        "datapath": topology.datapath,
        "on_failure": topology.on_failure,
        "lanes": {lane.name: lane_tree(lane) for lane in topology.lanes},
    }
    if topology.schedule:
        found["schedule"] = scheduleform.tree(topology.schedule)
    return found


def lane_tree(lane: Lane, *, apart: bool = False) -> dict[str, object]:
    """A lane as one would write it: an RTT and common impairments where both directions are alike.

    With `apart` each direction is written in full, its delay too.
    """
    even = not apart and (lane.outbound.delay_ns, lane.inbound.delay_ns) == split_rtt(lane.rtt_ns)
    outbound, inbound = (_direction_tree(d, with_delay=not even) for d in (lane.outbound, lane.inbound))
    tree: dict[str, object] = {"rtt": units.compact(units.format_duration(lane.rtt_ns))} if even else {}
    if even and outbound == inbound and "seed" not in outbound:
        tree |= outbound
    else:
        tree |= {name: d for name, d in (("outbound", outbound), ("inbound", inbound)) if d}
    tree |= {"mtu": lane.mtu, "line_rate": units.compact(units.format_rate(lane.line_rate_bps))}
    if lane.off:
        tree["disabled"] = True
    if lane.ports:
        vlan = {} if lane.vlan is None else {"vlan": lane.vlan}
        tree["ports"] = {"hub": lane.ports.hub, "site": lane.ports.site} | vlan
    tree |= {key: str(value) for key, value in (("host", lane.host), ("address", lane.address)) if value}
    return tree


def _direction_tree(direction: Impairment, *, with_delay: bool) -> dict[str, object]:
    """One direction's settings that are not at rest."""
    d, probability = direction, units.format_probability
    texts = {
        "delay": units.format_duration(d.delay_ns) if with_delay else "",
        "jitter": units.format_duration(d.jitter_ns) if d.jitter_ns else "",
        "loss": probability(d.loss_p32) if d.loss_p32 else "",
        "rate": units.format_rate(d.rate_bps) if d.rate_bps else "",
        "buffer": buffer_text(d.buffer) if d.buffer else "",
        "duplicate": probability(d.duplicate_p32) if d.duplicate_p32 else "",
        "corrupt": probability(d.corrupt_p32) if d.corrupt_p32 else "",
        "reorder": probability(d.reorder_p32) if d.reorder_p32 else "",
        "overhead": units.format_size(d.overhead_bytes) if d.overhead_bytes else "",
    }
    words = {
        "distribution": "" if d.distribution == "uniform" else d.distribution,
        "order": "" if d.keep_order else "free",
        "loss": str(d.loss_model) if d.loss_model else "",
        "corrupt": f"ber {d.ber_e15}e-15" if d.ber_e15 else "",
        "ecn": "yes" if d.ecn else "",
        "cells": "atm" if d.atm else "",
        "queue": "" if d.queue == "drop-tail" else d.queue,
        "seed": "" if d.seed is None else d.seed,
    }
    tree: dict[str, object] = {key: units.compact(text) for key, text in texts.items() if text}
    return tree | {key: list(word) if isinstance(word, tuple) else word for key, word in words.items() if word != ""}


def direction_keys() -> list[str]:
    """The names of all settings that a direction may have."""
    return list(DirectionForm.model_fields)


def buffer_text(buffer: Buffer) -> str:
    """A buffer as people read it: "8 MiB", "100 p", "5 ms"."""
    parts = {"bytes": buffer.bytes, "packets": buffer.packets, "ns": buffer.ns}
    return units.format_buffer({k: v for k, v in parts.items() if v is not None})  # type: ignore[arg-type]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a topology file, for editors."""
    return FileForm.model_json_schema()
