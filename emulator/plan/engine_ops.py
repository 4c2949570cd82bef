"""The operations on the wire engine, one process a lane.

Each prints what it asks of the engine in tc's words; the request itself is a line of JSON (`engine_lane`).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from emulator.plan.engine_lane import Wire
from emulator.plan.qdisc_values import Egress


class StartWire(Struct, frozen=True):
    """Start the engine that forwards a lane's frames in place of its bridge, which is down."""

    bridge: str
    wire: Wire

    def __str__(self) -> str:
        ports = f"hub {self.wire.hub} site {self.wire.site} on-failure {self.wire.on_failure}"
        return f"longhaul-wire start {self.bridge} {ports} {_both(self.wire)}"


class SetWire(Struct, frozen=True):
    """Change both directions of a lane at one instant; no frame is lost, and none overtakes another."""

    bridge: str
    wire: Wire

    def __str__(self) -> str:
        return f"longhaul-wire set {self.bridge} {_both(self.wire)}"


class StopWire(Struct, frozen=True):
    """End the engine of a lane, or remove the socket file of a dead one; the frames in flight are lost."""

    bridge: str

    def __str__(self) -> str:
        return f"longhaul-wire stop {self.bridge}"


def _both(wire: Wire) -> str:
    ways = zip(("outbound", "inbound"), (wire.outbound, wire.inbound), wire.memory_bytes, strict=True)
    return " ".join(f"{name} {' '.join(_words(egress))} memory {memory}" for name, egress, memory in ways)


def _words(egress: Egress) -> Iterator[str]:
    """What is done with the packets of no flow, then each flow's match and the same of it."""
    yield _settings(egress)
    for band in egress.bands:
        yield f"flow {' or '.join(map(str, band.filters))} {_settings(band.egress)}"


def _settings(egress: Egress) -> str:
    """Netem's and tbf's arguments; order is a setting of the engine's own, not an endless rate."""
    netem = replace(egress.netem, rate_bytes_per_s=0)
    words = [str(netem).removeprefix("netem "), "order keep" if egress.netem.rate_bytes_per_s else "order free"]
    return " ".join([*words, str(egress.shaper)] if egress.shaper else words)


WireOp = StartWire | SetWire | StopWire
