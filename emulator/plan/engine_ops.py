"""The operations on the wire engine, one process a lane; each prints as the command that would do the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from emulator.model.jitter_distribution import name_of
from emulator.plan.engine_lane import Wire, directions, encode


def socket_name(bridge: str) -> str:
    """Where the engine of a lane listens, as shown to people: the real name also tells the namespace."""
    return f"/run/longhaul/wire/{bridge}.sock"


@dataclass(frozen=True)
class StartWire:
    """Start the engine that moves a lane's frames in the place of its bridge, which is down."""

    bridge: str
    wire: Wire

    def __str__(self) -> str:
        return f"longhaul-wire {socket_name(self.bridge)} <<< '{_text(encode(self.bridge, self.wire))}'"


@dataclass(frozen=True)
class SetWire:
    """Change both directions of a lane at one instant; no frame is lost, and none overtakes another."""

    bridge: str
    wire: Wire

    def __str__(self) -> str:
        return _request(self.bridge, {"op": "set", **directions(self.wire)})


@dataclass(frozen=True)
class StopWire:
    """End the engine of a lane, or remove what a dead one left; what is in flight is lost."""

    bridge: str

    def __str__(self) -> str:
        return _request(self.bridge, {"op": "stop"})


def _text(request: dict[str, Any]) -> str:
    """As JSON, but for the tables of jitter, which are shown by their names."""
    return json.dumps(_named(request))


def _named(value: Any) -> Any:
    if isinstance(value, list):
        return [_named(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: name_of(tuple(v)) if key == "distribution" else _named(v) for key, v in value.items()}


def _request(bridge: str, request: dict[str, Any]) -> str:
    return f"socat - {socket_name(bridge)} <<< '{_text(request)}'"


WireOp = StartWire | SetWire | StopWire
