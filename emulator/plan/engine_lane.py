"""The wire engine's form of a lane: what one process of it is asked to do. Pure.

The numbers are netem's and tbf's, so that one topology means the same through either datapath. What the engine
cannot do is told by name, never left out silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from emulator.model.jitter_distribution import fingerprint, named
from emulator.model.loss_model import P32
from emulator.model.topology import Lane
from emulator.plan.netem_lowering import buffer_bytes
from emulator.plan.qdisc_values import ORDER_RATE_BYTES_PER_S, Egress, Netem, Shaper

SPARE_BYTES = 64 * 1024 * 1024
"""Room of each direction besides the delay line, for what small packets waste and for bursts."""

_PLAIN = ("delay_ns", "jitter_ns", "loss_p32", "duplicate_p32", "corrupt_p32", "reorder_p32", "gap", "ecn", "limit")
"""The fields of Netem that the engine knows by the same name."""

_TOLD = {"cell_overhead": "distribution", "bands": "flows"}
"""The fields that the topology has another name for."""


@dataclass(frozen=True)
class Wire:
    """One lane through the engine: `outbound` leaves by the port `site`, `inbound` by the port `hub`.

    `rooms` is the memory of each direction in bytes. `on_failure`: when the engine dies, the lane is "cut", or its
    bridge lets everything "pass" unimpaired. `running` False: the engine has died and left its name behind.
    """

    hub: str
    site: str
    outbound: Egress
    inbound: Egress
    rooms: tuple[int, int]
    on_failure: str = "cut"
    running: bool = True


DEAD = Wire("", "", Egress(Netem()), Egress(Netem()), (0, 0), running=False)
"""What is seen of an engine that has died: its name alone."""


def room_bytes(lane: Lane) -> tuple[int, int]:
    """The memory of (outbound, inbound): 1.2 times what is in flight, the bottleneck's buffer, and some to spare."""
    rooms = []
    for wish in (lane.outbound, lane.inbound):
        rate_bps = wish.rate_bps or lane.line_rate_bps
        flight = rate_bps * (wish.delay_ns + wish.jitter_ns) // 8_000_000_000
        flight += flight * wish.duplicate_p32 // P32
        rooms.append(flight * 6 // 5 + (buffer_bytes(lane, wish) if wish.rate_bps else 0) + SPARE_BYTES)
    return rooms[0], rooms[1]


def unknown(egress: Egress) -> list[str]:
    """What is asked for that the engine cannot do, by the names of netem's, tbf's and the egress' fields."""
    known = decode_egress(encode_egress(egress, 0))
    names = []
    for asked, done in ((egress.netem, known.netem), (egress.shaper, known.shaper), (egress, known)):
        if asked is not None:
            names += [f.name for f in fields(asked) if f.compare and getattr(asked, f.name) != getattr(done, f.name)]
    # An egress differs in its netem and shaper whenever these do: only its own fields count.
    return [_TOLD.get(name, name) for name in names if name not in ("netem", "shaper")]


def encode(bridge: str, wire: Wire) -> dict[str, Any]:
    """The lane as the engine reads it."""
    return {"hub": wire.hub, "site": wire.site, "bridge": bridge, "on_failure": wire.on_failure, **directions(wire)}


def directions(wire: Wire) -> dict[str, Any]:
    """Both directions as the engine reads them, at the start and for a change."""
    return {
        "outbound": encode_egress(wire.outbound, wire.rooms[0]),
        "inbound": encode_egress(wire.inbound, wire.rooms[1]),
    }


def decode(config: Mapping[str, Any]) -> Wire:
    """The inverse of `encode`. Raises KeyError or TypeError on what is no engine's answer."""
    outbound, inbound = config["outbound"], config["inbound"]
    return Wire(
        config["hub"],
        config["site"],
        decode_egress(outbound),
        decode_egress(inbound),
        (outbound["room_bytes"], inbound["room_bytes"]),
        config["on_failure"],
    )


def encode_egress(egress: Egress, room: int) -> dict[str, Any]:
    """One direction as the engine reads it."""
    netem, shaper = egress.netem, egress.shaper
    settings: dict[str, Any] = {name: getattr(netem, name) for name in _PLAIN}
    settings |= {"keep_order": netem.rate_bytes_per_s > 0, "room_bytes": room}
    if netem.gemodel:
        settings["gemodel"] = list(netem.gemodel)
    if netem.seed is not None:
        settings["seed"] = netem.seed
    if shaper:
        settings["rate"] = [shaper.rate_bytes_per_s, shaper.limit_bytes, shaper.burst_bytes]
    return settings


def decode_egress(settings: Mapping[str, Any]) -> Egress:
    """The inverse of `encode_egress`; the engine's jitter is uniform."""
    plain = {name: settings[name] for name in _PLAIN}
    table = named("uniform") if settings["jitter_ns"] else None
    model = settings.get("gemodel")
    netem = Netem(
        **plain,
        rate_bytes_per_s=ORDER_RATE_BYTES_PER_S if settings["keep_order"] else 0,
        gemodel=(model[0], model[1], model[2], model[3]) if model else None,
        seed=settings.get("seed"),
        distribution=table,
        cell_overhead=fingerprint(table) if table else 0,
    )
    if "rate" not in settings:
        return Egress(netem)
    rate, limit, burst = settings["rate"]
    return Egress(netem, Shaper(rate, burst, limit))
