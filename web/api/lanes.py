"""The REST endpoints of the lanes: topology, lanes, status, history, NICs, certificates."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from flask import Response, current_app, jsonify, make_response, request
from msgspec.structs import asdict, replace
from werkzeug.exceptions import NotFound, UnsupportedMediaType

from emulator import __version__
from emulator.config import key_reference, loader, yaml_source
from emulator.config.lane_patch import DIRECTIONS
from emulator.config.schema import DirectionForm, FlowForm, LaneForm, MatchForm, TopologyForm
from emulator.control.change_log import LoggedChange
from emulator.control.status_document import document, etag_of
from emulator.errors import InputError, Mistake, no_such
from emulator.model.flow_match import MOST_FLOWS
from emulator.model.topology import NAME_PATTERN, Topology
from emulator.plan import nic_inventory
from emulator.plan.nic_inventory import NicRow
from web.api import metrics, openapi
from web.api.routing import CONFIRM, DRY_RUN, JSON, YAML, EndpointTable, Query, json_body, whole
from web.api.schemas import (
    AuthorAnswer,
    EntryAnswer,
    HealthAnswer,
    HistoryAnswer,
    KeysAnswer,
    NicsAnswer,
    PlanAnswer,
    StatusAnswer,
    step_answers,
)
from web.auth.guard import OPEN
from web.certificates import CertificateAnswer, CertificatesAnswer
from web.context import here
from web.performed import Performed

table = EndpointTable()


def _patch_schema() -> dict[str, Any]:
    """A partial lane: a topology file's lane without the keys of its ports; null removes a setting."""
    flow = _settings_schema(FlowForm) | {"type": ["object", "null"]}
    flow["properties"]["match"] = _partial(MatchForm.model_fields)
    flows = {
        "type": ["object", "null"],
        "additionalProperties": flow,
        "propertyNames": {"pattern": f"^{NAME_PATTERN}$"},
    }
    lane = _settings_schema(LaneForm)
    lane["properties"] |= {"disabled": {}, "flows": flows}
    examples: list[dict[str, Any]] = [
        {"rtt": "40ms"},
        {"inbound": {"loss": "0.01%"}},
        {"rate": "1Gbit", "buffer": "8MiB"},
    ]
    return lane | {"examples": [*examples, {"flows": {"voice": {"match": {"dscp": "ef"}, "loss": "1%"}}}]}


def _patches_schema() -> dict[str, Any]:
    """Partial lanes by name."""
    examples: list[dict[str, Any]] = [{"lanes": {"california": {"disabled": True}, "london": {"disabled": True}}}]
    lanes = {"type": "object", "additionalProperties": _patch_schema(), "minProperties": 1}
    return {
        "type": "object", "properties": {"lanes": lanes}, "required": ["lanes"], "additionalProperties": False,
        "examples": examples,
    }  # fmt: skip


def _settings_schema(form: type[LaneForm | FlowForm]) -> dict[str, Any]:
    """The common settings of a lane and a flow: an RTT, and settings for both directions or for one."""
    common = {name for name in DirectionForm.model_fields if name != "delay"}
    schema = _partial(name for name in form.model_fields if name == "rtt" or name in common)
    schema["properties"] |= {side: _partial(DirectionForm.model_fields) for side in DIRECTIONS}
    return schema


def _partial(names: Iterable[str]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in names}, "additionalProperties": False}


def performed(done: Performed) -> Response:
    """The answer to a change."""
    answer = PlanAnswer(
        summary=done.summary,
        changed=bool(done.steps),
        performed=done.performed,
        steps=step_answers(done.steps),
        warnings=list(done.warnings),
    )
    response = make_response(answer.model_dump_json())
    response.content_type = JSON
    if done.etag:
        response.headers["ETag"] = done.etag
    return response


def own_addresses() -> tuple[str, ...]:
    """This machine's address of the client's connection: Longhaul must not use its port."""
    remote = request.remote_addr or ""
    with (
        suppress(OSError),
        socket.socket(socket.AF_INET6 if ":" in remote else socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        sock.connect((remote, 9))  # sends no packet: the kernel only chooses the route
        return (str(sock.getsockname()[0]),)
    return ()


def if_match() -> str:
    """The entity tag that the client knows; "" when it names none."""
    return request.headers.get("If-Match", "")


def _topology(hints: list[str]) -> Topology:
    """The topology in the body: YAML as in a file, or the same as JSON; appends hints about old words to `hints`.

    Raises InputError.
    """
    if request.mimetype == JSON:
        return loader.build(yaml_source.of_json(json_body(), "request"), hints=hints)
    if request.mimetype not in (YAML, "application/x-yaml", "text/yaml", "text/plain"):
        raise UnsupportedMediaType(f"send the topology as {YAML} or {JSON}")
    try:
        return loader.loads(request.get_data().decode(), "topology", hints=hints)
    except UnicodeDecodeError:
        raise InputError.single("is not a text in UTF-8", "topology") from None


@table("GET", "/api/topology", YAML, etag=True, problems=(404,))
def get_topology() -> Response:
    """The requested topology as YAML."""
    topology = here().usecases.topology()
    if topology is None:
        raise NotFound("nothing is up")
    return Response(loader.dumps(topology), content_type=YAML, headers={"ETag": here().usecases.etag()})


@table(
    "PUT",
    "/api/topology",
    PlanAnswer,
    body=TopologyForm,
    body_types=(JSON, YAML),
    query={"dry_run": DRY_RUN, "confirm": CONFIRM},
    etag=True,
    problems=(409, 503),
)
def put_topology(dry_run: bool = False, confirm: float | None = None) -> Response:
    """Bring this topology up; a failure changes nothing."""
    hints: list[str] = []
    done = here().usecases.up(
        _topology(hints), if_match=if_match(), dry_run=dry_run, confirm_s=confirm, sessions=own_addresses()
    )
    return performed(replace(done, warnings=[*hints, *done.warnings]))


@table("DELETE", "/api/topology", PlanAnswer, query={"dry_run": DRY_RUN}, etag=True, problems=(409, 503))
def delete_topology(dry_run: bool = False) -> Response:
    """Remove all lanes and restore the ports."""
    return performed(here().usecases.down(if_match=if_match(), dry_run=dry_run))


@table(
    "PATCH",
    "/api/lanes/<name>",
    PlanAnswer,
    body=_patch_schema(),
    query={"dry_run": DRY_RUN, "confirm": CONFIRM},
    etag=True,
    problems=(409, 503),
)
def patch_lane(name: str, dry_run: bool = False, confirm: float | None = None) -> Response:
    """Change a lane in use; settings that are not named stay, and null removes a setting."""
    patch = json_body()
    if not isinstance(patch, dict):
        raise InputError.single('not a JSON object: use {"KEY": VALUE}', "request")
    usecases = here().usecases
    topology = usecases.topology()
    if topology is not None and name not in topology.sites:
        raise NotFound(no_such("lane", name, topology.sites))
    done = usecases.patch({name: patch}, if_match=if_match(), dry_run=dry_run, confirm_s=confirm)
    return performed(done)


@table(
    "PATCH",
    "/api/lanes",
    PlanAnswer,
    body=_patches_schema(),
    query={"dry_run": DRY_RUN, "confirm": CONFIRM},
    etag=True,
    problems=(409, 503),
)
def patch_lanes(dry_run: bool = False, confirm: float | None = None) -> Response:
    """Change several lanes in use as one change, which one undo reverts."""
    body = json_body()
    patches = body.get("lanes") if isinstance(body, dict) and len(body) == 1 else None
    if not isinstance(patches, dict) or not patches:
        raise InputError.single('names no lanes: use {"lanes": {"NAME": {"KEY": VALUE}}}', "request")
    if wrong := [name for name, patch in patches.items() if not isinstance(patch, dict)]:
        text = 'not a JSON object: use {"KEY": VALUE}'
        raise InputError([Mistake("request", f"lanes.{name}", text) for name in wrong])
    return performed(here().usecases.patch(patches, if_match=if_match(), dry_run=dry_run, confirm_s=confirm))


@table("GET", "/api/status", StatusAnswer, problems=(503,))
def get_status() -> Response:
    """Every lane: settings, kernel state and counters; and the drift."""
    return Response(_status_text(), content_type=JSON)


def _status_text() -> str:
    """The status as JSON, encoded once for all clients that ask at the same time."""
    daemon = here()
    status = daemon.usecases.status()
    if daemon.last_status is None or daemon.last_status[0] is not status:
        daemon.last_status = status, json.dumps(document(status))
    return daemon.last_status[1]


@table("GET", "/api/keys", KeysAnswer)
def keys() -> KeysAnswer:
    """The table of impairments, with the names, values, ranges and words that a form needs."""
    match = key_reference.match_rows()
    return KeysAnswer.model_validate({"keys": key_reference.rows(), "match": match, "most_flows": MOST_FLOWS})


@table("GET", "/api/nics", NicsAnswer, problems=(503,))
def nics() -> NicsAnswer:
    """The machine's interfaces, why some cannot be used, and the free ones in pairs as `longhaul init` makes them."""
    rows = here().usecases.nics(own_addresses())
    pairs = [[one.name, other.name] for one, other in nic_inventory.free_pairs(rows)]
    return NicsAnswer(nics=[_nic(row) for row in rows], pairs=pairs)


def _nic(row: NicRow) -> dict[str, Any]:
    of_row = {
        "name": row.name,
        "usable": not row.reasons,
        "reasons": list(row.reasons),
        "owner": row.owner,
        "up": row.up,
    }
    sets = {"altnames": list(row.nic.altnames), "offloads": sorted(row.nic.offloads)}
    return of_row | asdict(row.nic) | sets


@table("POST", "/api/confirm", StatusAnswer, problems=(409, 503))
def confirm() -> Response:
    """Confirm the pending change."""
    here().usecases.confirm()
    return Response(_status_text(), content_type=JSON)


@table("POST", "/api/revert", PlanAnswer, etag=True, problems=(409, 503))
def revert() -> Response:
    """Back to what was confirmed, at once and never further; 409 when no change waits for confirmation."""
    return performed(here().usecases.revert(if_match=if_match()))


@table("POST", "/api/undo", PlanAnswer, etag=True, problems=(409, 503))
def undo() -> Response:
    """Back to the topology before the last change, or to what was confirmed while a change waits; a change too."""
    return performed(here().usecases.undo(if_match=if_match()))


@table("GET", "/api/history", HistoryAnswer, problems=(503,))
def history() -> HistoryAnswer:
    """The last changes: when, who, what."""
    return HistoryAnswer(entries=[_entry(change) for change in here().usecases.history()])


def _entry(change: LoggedChange) -> EntryAnswer:
    author = AuthorAnswer(**asdict(change.author))
    said = {name: getattr(change, name) for name in ("number", "when", "summary", "times", "diff", "lanes")}
    return EntryAnswer(author=author, etag=etag_of(change.after), **said)


@table("GET", "/api/certificates", CertificatesAnswer)
def certificates() -> CertificatesAnswer:
    """All certificates, newest first."""
    return here().certificates.all()


ECHOES = {"count": Query(whole(1, 100), {"type": "string", "examples": ["10"]}, "echoes per pair of hosts")}


@table("POST", "/api/certificates", CertificateAnswer, status=201, query=ECHOES, problems=(409, 503))
def make_certificate(count: int = 10) -> CertificateAnswer:
    """Ping every pair of hosts now and keep the certificate."""
    return here().certificates.make(here().usecases.status, count)


@table("GET", "/api/certificates/<name>", CertificateAnswer)
def certificate(name: str) -> CertificateAnswer:
    """One certificate."""
    try:
        return here().certificates.get(name)
    except KeyError:
        raise NotFound(f"no certificate {name!r}") from None


@table("GET", "/api/openapi.json", JSON, role=OPEN)
def openapi_document() -> Response:
    """This document."""
    return jsonify(openapi.document(current_app.extensions["endpoints"]))


@table("GET", "/metrics", "text/plain; version=0.0.4; charset=utf-8", problems=(503,))
def prometheus() -> bytes:
    """The lanes for Prometheus."""
    daemon = here()
    look = daemon.live.looks[-1] if daemon.live.looks else None
    return metrics.text(daemon.usecases.status(), look, daemon.runs.states(), daemon.live.channel.watchers)


@table("GET", "/healthz", HealthAnswer, role=OPEN)
def healthz() -> HealthAnswer:
    """Whether the daemon runs and still checks the lanes."""
    daemon = here()
    now = daemon.clock()

    def ago_s(then: float | None) -> float | None:
        return None if then is None else round(now - then, 3)

    uptime_s, sampled, watched = round(now - daemon.started, 3), daemon.live.looked_at, daemon.watched_at()
    return HealthAnswer(
        status="ok", version=__version__, uptime_s=uptime_s, sampled_s_ago=ago_s(sampled), watched_s_ago=ago_s(watched)
    )
