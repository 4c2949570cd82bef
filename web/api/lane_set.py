"""The endpoints that add lanes to what is up and remove them, and of what a new one can be made."""

from __future__ import annotations

from typing import Any

from flask import Response
from pydantic import Field
from werkzeug.exceptions import NotFound

from emulator.config.new_lanes import NewLanesForm
from emulator.errors import InputError, Mistake, no_such
from emulator.model.access_networks import ACCESS_NETWORKS, AccessNetwork
from emulator.units import compact, format_duration, format_rate
from web.api.lanes import if_match, own_addresses, performed
from web.api.routing import CONFIRM, DRY_RUN, EndpointTable, json_body
from web.api.schemas import Answer, PlanAnswer
from web.context import here

table = EndpointTable()
QUERY = {"dry_run": DRY_RUN, "confirm": CONFIRM}


class AccessAnswer(Answer):
    """An access network: what it adds to the RTT, and the settings of a lane behind it, as in a topology file."""

    name: str
    label: str
    rtt_ns: int
    settings: dict[str, dict[str, str]] = Field(description="impairments of `outbound` and `inbound`")
    source: str = Field(description="where the figures are from")


class AccessesAnswer(Answer):
    """The known access networks."""

    access: list[AccessAnswer]


@table("POST", "/api/lanes", PlanAnswer, body=NewLanesForm, query=QUERY, etag=True, problems=(409, 503))
def add_lanes(dry_run: bool = False, confirm: float | None = None) -> Response:
    """Add lanes to what is up, as one change; the other lanes go on as they are."""
    body = json_body()
    trees = body.get("lanes") if isinstance(body, dict) and len(body) == 1 else None
    if not isinstance(trees, dict) or not trees:
        raise InputError.single('names no lanes: use {"lanes": {"NAME": {"rtt": "32ms"}}}', "request")
    if wrong := [name for name, tree in trees.items() if not isinstance(tree, dict)]:
        raise InputError(
            [Mistake("request", f"lanes.{name}", 'not a JSON object: use {"KEY": VALUE}') for name in wrong]
        )
    said: dict[str, Any] = {"if_match": if_match(), "dry_run": dry_run, "confirm_s": confirm}
    return performed(here().usecases.add(trees, sessions=own_addresses(), **said))


@table("DELETE", "/api/lanes/<name>", PlanAnswer, query=QUERY, etag=True, problems=(409, 503))
def remove_lane(name: str, dry_run: bool = False, confirm: float | None = None) -> Response:
    """Remove a lane; the other lanes go on as they are. The warnings say what else is lost."""
    topology = here().usecases.topology()
    if topology is not None and name not in topology.sites:
        raise NotFound(no_such("lane", name, topology.sites))
    done = here().usecases.remove(name, if_match=if_match(), dry_run=dry_run, confirm_s=confirm)
    return performed(done)


@table("GET", "/api/access", AccessesAnswer)
def access() -> AccessesAnswer:
    """The known access networks, such as LTE, with the source of each figure."""
    return AccessesAnswer(access=[_access(one) for one in ACCESS_NETWORKS])


def _access(one: AccessNetwork) -> AccessAnswer:
    rates = {"outbound": one.down_bps, "inbound": one.up_bps}
    jitter = compact(format_duration(one.jitter_ns))
    settings = {side: {"rate": compact(format_rate(rate)), "jitter": jitter} for side, rate in rates.items()}
    return AccessAnswer(name=one.name, label=one.label, rtt_ns=one.rtt_ns, settings=settings, source=one.source)
