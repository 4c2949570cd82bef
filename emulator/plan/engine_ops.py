"""The operations on the wire engine, one process a lane; each prints as the command that would do the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

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
        return f"longhaul-wire {socket_name(self.bridge)} <<< '{json.dumps(encode(self.bridge, self.wire))}'"


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


def _request(bridge: str, request: dict[str, Any]) -> str:
    return f"socat - {socket_name(bridge)} <<< '{json.dumps(request)}'"


WireOp = StartWire | SetWire | StopWire
