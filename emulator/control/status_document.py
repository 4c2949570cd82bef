"""The status as one JSON document, for `GET /api/status`, `longhaul status --json` and certificates.

Requested settings are as in a topology file; the kernel's state is in the kernel's own integers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import asdict

from emulator.config import writer
from emulator.control.schedule_lateness import BUCKETS_NS, Lateness
from emulator.control.status import DirectionCounters, DirectionStatus, LaneStatus, PendingStatus, Status
from emulator.model.topology import Lane, Topology
from emulator.plan.aqm import Aqm
from emulator.plan.ops import Op, Step
from emulator.plan.qdisc_values import Netem, Shaper
from emulator.plan.small_frames import DropRates
from emulator.system.struct_json import from_plain, to_plain

DIRECTIONS = ("outbound", "inbound")


def document(status: Status) -> dict[str, Any]:
    """The whole status. Units are in the names."""
    topology, pending = status.topology, status.pending
    left_ns = pending.left_ns if pending else None
    return {
        "topology": topology.name if topology else None,
        "hub": topology.hub if topology else None,
        "etag": etag_of(topology),
        "datapath": status.datapath,
        "lanes": [lane_document(one) for one in status.lanes],
        "paths": [{"from": path.one, "to": path.other, "rtt_ns": path.rtt_ns} for path in status.paths],
        "drift": [{"command": str(step.op), "why": step.why} for step in status.drift],
        "blocked": dict(status.blocked),
        "pending": None if left_ns is None else {"seconds_left": max(0.0, round(left_ns / 1e9, 3))},
        "leased": status.leased,
        "borrowed": status.leased,
        "back_to": pending.back_to if pending else None,
        "schedule": lateness_document(status.lateness) if status.lateness else None,
        "changing": status.changing,
    }


def lane_document(one: LaneStatus) -> dict[str, Any]:
    """A lane: its requested and its present state. On a lane with flows, `outbound` and `inbound` are for no flow."""
    both = zip(one.lane.flows, one.outbound.flows, one.inbound.flows, strict=False)
    return {
        "name": one.lane.name,
        "rtt_ns": one.lane.rtt_ns,
        "asked_ns": one.lane.in_effect.rtt_ns,
        "off": one.lane.off,
        "settings": writer.lane_tree(one.lane, apart=True),
        "outbound": direction_document(one.outbound),
        "inbound": direction_document(one.inbound),
        "flows": {
            flow.name: {"outbound": direction_document(out), "inbound": direction_document(back)}
            for flow, out, back in both
        },
    }


def direction_document(direction: DirectionStatus) -> dict[str, Any]:
    """The kernel's state of one direction; drops that the kernel does not count separately are None."""
    return {
        "port": direction.port,
        "netem": to_plain(direction.netem),
        "tbf": to_plain(direction.shaper),
        "aqm": to_plain(direction.aqm),
        **asdict(direction.counters),
        "not_permitted": list(direction.not_permitted),
        "drops_above_pps": direction.drop_rates.empty,
        "drops_above_pps_buffer_full": direction.drop_rates.full,
    }


def lateness_document(late: Lateness) -> dict[str, Any]:
    """The lateness of a schedule's changes."""
    return asdict(late) | {"mean_ns": late.mean_ns, "buckets_ns": list(BUCKETS_NS)}


def etag_of(topology: Topology | None) -> str:
    """A strong entity tag of the requested topology (RFC 9110, 8.8.3)."""
    text = json.dumps(to_plain(topology)) if topology else ""
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def from_document(answer: Mapping[str, Any], topology: Topology | None, present: Topology | None = None) -> Status:
    """The status that another Longhaul told, whose topology this is. A step's operation is the command it told.

    `present` has the lanes as its schedule asks for them at this moment; without a schedule it is None.
    """
    asked = present or topology
    lanes = tuple(_lane_status(asked.lane(one["name"]), one) for one in answer["lanes"]) if asked else ()
    late = answer.get("schedule")
    return Status(
        topology,
        steps_of(answer["drift"]),
        lanes,
        answer["blocked"],
        _pending(answer),
        answer["datapath"],
        Lateness(**{name: late[name] for name in Lateness.__struct_fields__}) if late else None,
        answer.get("changing", False),  # the daemon there may be of the release before
    )


def steps_of(rows: list[Mapping[str, str]]) -> list[Step]:
    """The steps of a document; a step's operation is the reported command."""
    return [Step(cast(Op, row["command"]), row["why"]) for row in rows]


def _pending(answer: Mapping[str, Any]) -> PendingStatus | None:
    if answer.get("leased", answer.get("borrowed")):  # the remote daemon may be of the previous release
        return PendingStatus(None, answer["back_to"])
    waits = answer["pending"]
    return PendingStatus(round(waits["seconds_left"] * 1e9), answer["back_to"]) if waits else None


def _lane_status(lane: Lane, answer: Mapping[str, Any]) -> LaneStatus:
    outbound, inbound = (
        _direction_status(answer[side], tuple(_direction_status(flow[side]) for flow in answer["flows"].values()))
        for side in DIRECTIONS
    )
    return LaneStatus(lane, outbound, inbound)


def _counters(answer: Mapping[str, Any]) -> DirectionCounters:
    """The counters; the daemon there may be of the release before, which lacks the last of them."""
    names = DirectionCounters.__struct_fields__
    return from_plain(DirectionCounters, {name: answer[name] for name in names if name in answer})


def _direction_status(answer: Mapping[str, Any], flows: tuple[DirectionStatus, ...] = ()) -> DirectionStatus:
    """A direction from the reported attributes of its qdiscs."""
    return DirectionStatus(
        answer["port"],
        from_plain(Netem, answer["netem"]) if answer["netem"] else None,
        from_plain(Shaper, answer["tbf"]) if answer["tbf"] else None,
        from_plain(cast(type[Aqm], Aqm), answer["aqm"]) if answer["aqm"] else None,
        _counters(answer),
        flows=flows,
        not_permitted=tuple(answer.get("not_permitted", ())),
        drop_rates=DropRates(answer.get("drops_above_pps"), answer.get("drops_above_pps_buffer_full")),
    )
