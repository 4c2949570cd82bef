"""The configuration of one wire engine process, which serves one lane. Pure.

It holds netem's and tbf's numbers, so that a topology means the same with either datapath. Settings that the engine
does not support are reported by name, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from emulator.model.flow_match import Filter
from emulator.model.impairment import Impairment
from emulator.model.jitter_distribution import fingerprint, named
from emulator.model.loss_model import P32
from emulator.model.topology import Lane
from emulator.plan.netem_lowering import buffer_bytes, jitter_reach_ns
from emulator.plan.qdisc_values import ORDER_RATE_BYTES_PER_S, TOLD_BY_NETEM, Band, Egress, Netem, Shaper

SPARE_BYTES = 64 * 1024 * 1024
"""Memory of each direction besides the delay line, for the overhead of small packets and for bursts."""

QUEUE_BYTES = 4 * 1024 * 1024
"""What a bottleneck's queue with memory of its own takes besides its frames: the engine hands out 2 MiB at a time."""

_PLAIN = ("delay_ns", "jitter_ns", "loss_p32", "duplicate_p32", "corrupt_p32", "reorder_p32", "gap", "ecn", "limit")
"""The fields of Netem that the engine knows by the same name."""

_TOPOLOGY_NAMES = {"cell_overhead": "distribution", "bands": "flows"}
"""The fields that have another name in the topology."""


class Wire(Struct, frozen=True):
    """One lane through the engine: `outbound` leaves by the port `site`, `inbound` by the port `hub`.

    `memory_bytes` is the most that each direction may use. `on_failure`: when the engine dies, the lane is "cut", or
    its bridge lets all frames "pass" unimpaired. `running` False: the engine has died and left its socket file behind.
    """

    hub: str
    site: str
    outbound: Egress
    inbound: Egress
    memory_bytes: tuple[int, int]
    on_failure: str = "cut"
    running: bool = True


DEAD = Wire("", "", Egress(Netem()), Egress(Netem()), (0, 0), running=False)
"""Stands for an engine that has died: only its name is known."""


def lane_memory_bytes(lane: Lane) -> tuple[int, int]:
    """The memory of (outbound, inbound): 1.2 times the bytes in flight, the bottlenecks' buffers, and a reserve."""
    ways = lane.ways
    return _direction_memory(lane, [way.outbound for way in ways]), _direction_memory(
        lane, [way.inbound for way in ways]
    )


def _direction_memory(lane: Lane, impairments: list[Impairment]) -> int:
    """The memory of one direction: `impairments` are those of no flow, then the flows'; all share the line.

    Frames of all flows are delayed in the same memory, which is used again in the order in which it was filled: each
    frame keeps it as long as one with the longest delay. What waits before a flow's bottleneck has memory of its own.
    """
    rates = [one.rate_bps or lane.line_rate_bps for one in impairments]
    delay_ns = max(one.delay_ns + jitter_reach_ns(one) for one in impairments)
    flight = min(sum(rates), max(lane.line_rate_bps, *rates)) * delay_ns // 8_000_000_000
    flight += flight * max(one.duplicate_p32 for one in impairments) // P32
    queues = [buffer_bytes(lane, one) for one in impairments if one.rate_bps]
    apart = QUEUE_BYTES * len(queues) if len(impairments) > 1 else 0
    return flight * 6 // 5 + sum(queues) + apart + SPARE_BYTES


def unknown(egress: Egress) -> list[str]:
    """The settings that the engine does not support, by the names of netem's, tbf's and the egress' fields."""
    known = decode_egress(encode_egress(egress, 0))
    parts = ((asked, done) for (_, asked), (_, done) in zip(egress.places, known.places, strict=True))
    return list(dict.fromkeys(name for asked, done in parts for name in _unknown(asked, done)))


def _unknown(asked: Egress, done: Egress) -> Iterator[str]:
    for one, other in ((asked.netem, done.netem), (asked.shaper, done.shaper), (asked, done)):
        if one is not None:
            names = TOLD_BY_NETEM if isinstance(one, Netem) else one.__struct_fields__
            found = (name for name in names if getattr(one, name) != getattr(other, name))
            # An egress differs in its netem and shaper whenever these do: only its own fields count.
            yield from (_TOPOLOGY_NAMES.get(name, name) for name in found if name not in ("netem", "shaper"))


def encode(bridge: str, wire: Wire) -> dict[str, Any]:
    """The lane as the engine reads it."""
    return {"hub": wire.hub, "site": wire.site, "bridge": bridge, "on_failure": wire.on_failure, **directions(wire)}


def directions(wire: Wire) -> dict[str, Any]:
    """Both directions as the engine reads them, at the start and for a change."""
    return {
        "outbound": encode_egress(wire.outbound, wire.memory_bytes[0]),
        "inbound": encode_egress(wire.inbound, wire.memory_bytes[1]),
    }


def decode(config: Mapping[str, Any]) -> Wire:
    """The inverse of `encode`. Raises KeyError or TypeError for anything but an engine's answer."""
    outbound, inbound = config["outbound"], config["inbound"]
    return Wire(
        config["hub"],
        config["site"],
        decode_egress(outbound),
        decode_egress(inbound),
        (outbound["memory_bytes"], inbound["memory_bytes"]),
        config["on_failure"],
    )


def encode_egress(egress: Egress, memory_bytes: int) -> dict[str, Any]:
    """One direction as the engine reads it: the settings for no flow, then the flows in the order of matching."""
    flows = [
        {"filters": [_encode_filter(one) for one in band.filters], "settings": _encode_settings(band.egress)}
        for band in egress.bands
    ]
    return {"memory_bytes": memory_bytes, "settings": _encode_settings(egress), "flows": flows}


def _encode_settings(egress: Egress) -> dict[str, Any]:
    netem, shaper = egress.netem, egress.shaper
    settings: dict[str, Any] = {name: getattr(netem, name) for name in _PLAIN}
    settings["keep_order"] = netem.rate_bytes_per_s > 0
    for name, model in (("gemodel", netem.gemodel), ("four_state", netem.four_state)):
        if model:
            settings[name] = list(model)
    if netem.seed is not None:
        settings["seed"] = netem.seed
    if netem.distribution and netem.distribution != named("uniform"):
        settings["distribution"] = list(netem.distribution)
    if shaper:
        settings["rate"] = {
            "bytes_per_s": shaper.rate_bytes_per_s, "buffer_bytes": shaper.limit_bytes,
            "burst_bytes": shaper.burst_bytes, "overhead_bytes": shaper.overhead_bytes, "atm": shaper.atm,
        }  # fmt: skip
    return settings


def _encode_filter(one: Filter) -> dict[str, Any]:
    said = asdict(one)
    for end in ("source", "target"):
        said[end] = said[end] and str(said[end])
    return {key: value for key, value in said.items() if value is not None}


def decode_egress(direction: Mapping[str, Any]) -> Egress:
    """The inverse of `encode_egress`."""
    first = _decode_settings(direction["settings"])
    bands = tuple(
        Band(tuple(_decode_filter(one) for one in flow["filters"]), _decode_settings(flow["settings"]))
        for flow in direction["flows"]
    )
    return Egress(first.netem, first.shaper, bands=bands)


def _decode_settings(settings: Mapping[str, Any]) -> Egress:
    """Without a table the engine's jitter is uniform."""
    plain = {name: settings[name] for name in _PLAIN}
    table = tuple(settings["distribution"]) if "distribution" in settings else None
    if table is None and settings["jitter_ns"]:
        table = named("uniform")
    netem = Netem(
        **plain,
        rate_bytes_per_s=ORDER_RATE_BYTES_PER_S if settings["keep_order"] else 0,
        gemodel=tuple(settings["gemodel"]) if "gemodel" in settings else None,
        four_state=tuple(settings["four_state"]) if "four_state" in settings else None,
        seed=settings.get("seed"),
        distribution=table,
        cell_overhead=fingerprint(table) if table else 0,
    )
    rate = settings.get("rate")
    return Egress(netem, _decode_rate(rate) if rate else None)


def _decode_rate(rate: Mapping[str, Any]) -> Shaper:
    return Shaper(
        rate["bytes_per_s"], rate["burst_bytes"], rate["buffer_bytes"], rate["overhead_bytes"], rate["atm"]
    )  # fmt: skip


def _decode_filter(said: Mapping[str, Any]) -> Filter:
    networks = {end: ip_network(said[end]) for end in ("source", "target") if end in said}
    return Filter(**{**said, **networks})
