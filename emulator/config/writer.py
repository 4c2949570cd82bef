"""A topology as a file holds it: the model back to plain values, written as people would."""

from __future__ import annotations

from typing import Any

from emulator import units
from emulator.config import schedule_schema
from emulator.model import flow_match
from emulator.model.impairment import Buffer, Impairment
from emulator.model.topology import Flow, Lane, Topology, split_rtt


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
        found["schedule"] = schedule_schema.tree(topology.schedule)
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
    if lane.flows:
        tree["flows"] = {flow.name: {"match": flow_match.tree(flow.match), **_ways_tree(flow)} for flow in lane.flows}
    return tree


def _ways_tree(flow: Flow) -> dict[str, object]:
    """Both directions in full: what a flow does not say of its delay would be the lane's."""
    ways = {name: _direction_tree(getattr(flow, name), with_delay=True) for name in ("outbound", "inbound")}
    return dict(ways)


def _direction_tree(direction: Impairment, *, with_delay: bool) -> dict[str, object]:
    """One direction's settings that are not at rest."""
    d, probability = direction, units.format_probability
    texts = {
        "delay": units.format_duration(d.delay_ns) if with_delay else "",
        "jitter": units.format_duration(d.jitter_ns) if d.jitter_ns else "",
        "loss": probability(d.loss_p32) if d.loss_p32 else "",
        "rate": units.format_rate(d.rate_bps) if d.rate_bps else "",
        "buffer": _buffer_text(d.buffer) if d.buffer else "",
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


def _buffer_text(buffer: Buffer) -> str:
    """A buffer as people read it: "8 MiB", "100 p", "5 ms"."""
    parts = {"bytes": buffer.bytes, "packets": buffer.packets, "ns": buffer.ns}
    return units.format_buffer({k: v for k, v in parts.items() if v is not None})  # type: ignore[arg-type]
