"""A remote appliance over its API, with the methods of `Appliance`: the same commands use both."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from msgspec import Struct

from emulator.config import lane_patch, loader, writer, yaml_source
from emulator.control.change_log import KEPT, Author, here
from emulator.control.status import Status
from emulator.control.status_document import from_document, steps_of
from emulator.errors import InputError, LonghaulError, MissingError, Mistake, RefusedError, RemoteError, no_such
from emulator.model.lane_patch import difference
from emulator.model.topology import Lane, Topology
from emulator.plan.ops import Step
from emulator.system import bounded_file, kept_file
from emulator.units import format_size

if TYPE_CHECKING:
    from emulator.control.changes import LaneChange

TIMEOUT_S = 120.0
TOKEN = "LONGHAUL_TOKEN"
USER_HEADER = "X-Longhaul-User"
"""Names the user for the history, percent-encoded; the token alone decides what the user may do."""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket file."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Reply(Struct, frozen=True):
    """The daemon's answer to a successful request."""

    text: str
    etag: str

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)


class Client:
    """One daemon at `url`: http://HOST:PORT, https://HOST or unix:/PATH. Raises InputError on anything else."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url, self._parts = url, urlsplit(url)
        if self._parts.scheme not in ("http", "https", "unix") or not (self._parts.hostname or self._parts.path):
            raise InputError.single(f"{url!r} is not an address: use http://HOST:8642 or unix:/PATH", "--url")
        self._token = token

    def ask(self, method: str, path: str, body: str | bytes | None = None, **headers: str) -> Reply:
        """Send one request. Raises the failure that the daemon reports, or MissingError when no daemon answers."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent.setdefault(USER_HEADER, quote(here("").user))
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        connection = self._connection()
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            content = response.read(bounded_file.ANSWER.most_bytes + 1)
        except (OSError, http.client.HTTPException) as error:
            said = f"{error}" or type(error).__name__
            raise MissingError(f"no daemon answers at {self._url} ({said}): start one with longhaul serve") from None
        finally:
            connection.close()
        if len(content) > bounded_file.ANSWER.most_bytes:
            raise RemoteError(f"{self._url} answered with more than {format_size(bounded_file.ANSWER.most_bytes)}")
        text = content.decode(errors="replace")
        if response.status >= 400:
            raise _failure(response.status, text)
        return Reply(text, response.headers.get("ETag", ""))

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "unix":
            return _UnixConnection(self._parts.path)
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        return kind(host, port, timeout=TIMEOUT_S)


def _failure(status: int, text: str) -> LonghaulError:
    """The failure that a problem (RFC 9457) describes."""
    try:
        problem = json.loads(text)
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return RemoteError(f"the daemon answered {status}: {text.strip()[:200]}")
    if mistakes := problem.get("mistakes"):
        return InputError([Mistake(m["where"], m["path"], m["text"]) for m in mistakes])
    kinds: dict[int, type[LonghaulError]] = {401: RefusedError, 403: RefusedError, 409: RefusedError, 412: RefusedError}
    kinds |= {421: RefusedError, 429: RefusedError, 503: MissingError}
    if status == 401:
        detail += f"; set ${TOKEN} to the token"
    return InputError.single(detail) if status in (400, 404, 422) else kinds.get(status, RemoteError)(detail)


class RemoteAppliance:
    """The use cases of a remote appliance. It refuses a change when another client changed the lanes before."""

    def __init__(self, client: Client) -> None:
        self._client, self._etag = client, ""
        self._known: Topology | None = None
        """What the ETag names."""
        self._warned: list[str] = []
        self._notes: list[str] = []

    def take_notes(self) -> list[str]:
        """The warnings of the changes made there since the last call."""
        taken, self._notes = self._notes, []
        return taken

    def topology(self) -> Topology | None:
        """The remote topology; None when none is up."""
        if self._status()["topology"] is None:
            return None
        reply = self._client.ask("GET", "/api/topology")
        self._etag, self._known = reply.etag, loader.loads(reply.text, "remote topology")
        return self._known

    def up(self, topology: Topology, confirm_s: float | None = None) -> list[Step]:
        """Make the machine there be this topology."""
        return self._changed(self._ask_to_put(topology, _query(confirm=confirm_s)))

    def plan(self, topology: Topology) -> list[Step]:
        """What `up` would do."""
        return _steps(self._ask_to_put(topology, "?dry_run=1"))

    def warnings(self, topology: Topology) -> list[str]:
        """What `up` will do although it is likely not meant."""
        self._warned = list(self._ask_to_put(topology, "?dry_run=1")["warnings"])
        return self._warned

    def down(self) -> list[Step]:
        """Take everything of ours away there."""
        return self._changed(self._client.ask("DELETE", "/api/topology").json())

    def plan_down(self) -> list[Step]:
        """The steps that `down` would take."""
        return _steps(self._client.ask("DELETE", "/api/topology?dry_run=1").json())

    def set_lane(self, lane: Lane, confirm_s: float | None = None) -> list[Step]:
        """Replace the lane of that name, live."""
        return self.set_lanes([lane], confirm_s)

    def set_lanes(self, lanes: Sequence[Lane], confirm_s: float | None = None) -> list[Step]:
        """Replace the lanes of those names, live, all in one."""
        return self.change_lanes(lambda _: lanes, confirm_s)

    def change_lanes(self, change: LaneChange, confirm_s: float | None = None) -> list[Step]:
        """Replace lanes by those that `change` returns for what was up there when it was last read, live, all in one.

        Only what differs is sent. Raises InputError when there is no such lane, and RefusedError when another client
        has changed the lanes since they were read.
        """
        known = self._known or self.topology()
        if known is None:
            raise InputError.single("no topology is up there: run longhaul up FILE")
        lanes = change(known)
        if missing := [lane.name for lane in lanes if lane.name not in known.sites]:
            raise InputError([Mistake("", "", no_such("lane", name, known.sites)) for name in missing])
        patches = {lane.name: lane_patch.tree(difference(known.lane(lane.name), lane)) for lane in lanes}
        body, headers = json.dumps({"lanes": patches}), self._headers("application/json")
        return self._changed(self._client.ask("PATCH", f"/api/lanes{_query(confirm_s)}", body, **headers).json())

    def add_lanes(self, lanes: Sequence[Lane], confirm_s: float | None = None) -> list[Step]:
        """Add lanes to what is up there."""
        body = json.dumps({"lanes": {lane.name: writer.lane_tree(lane) for lane in lanes}})
        headers = self._headers("application/json")
        return self._changed(self._client.ask("POST", f"/api/lanes{_query(confirm_s)}", body, **headers).json())

    def remove_lane(self, name: str, confirm_s: float | None = None) -> list[Step]:
        """Remove one lane there."""
        headers = self._headers("application/json")
        path = f"/api/lanes/{quote(name, safe='')}{_query(confirm_s)}"
        return self._changed(self._client.ask("DELETE", path, **headers).json())

    def status(self) -> Status:
        """The remote machine's intent and kernel state."""
        document = self._status()
        topology = self.topology() if document["topology"] else None
        present = _scheduled(topology, document) if topology and topology.schedule else None
        return from_document(document, topology, present)

    def confirm(self) -> None:
        """Confirm the pending change."""
        self._client.ask("POST", "/api/confirm")

    def undo(self) -> list[Step]:
        """Back to the topology before the last change."""
        return self._changed(self._client.ask("POST", "/api/undo").json())

    def history(self, count: int = KEPT) -> list[Any]:
        """The last changes, newest first."""
        document = self._client.ask("GET", "/api/history").json()["entries"][:count]
        return [SimpleNamespace(**one | {"author": Author(**one["author"])}) for one in document]

    def is_played(self) -> bool:
        """Whether a process plays schedules there: the daemon that answers does."""
        return True

    def nics(self) -> list[dict[str, Any]]:
        """The remote machine's interfaces."""
        return list(self._client.ask("GET", "/api/nics").json()["nics"])

    def _changed(self, document: Mapping[str, Any]) -> list[Step]:
        """The steps of a change, whose warnings become notes; `warnings` has told some already."""
        self._notes += [text for text in document["warnings"] if text not in self._warned]
        return _steps(document)

    def _ask_to_put(self, topology: Topology, query: str) -> dict[str, Any]:
        text, headers = loader.dumps(topology), self._headers("application/yaml")
        return dict(self._client.ask("PUT", f"/api/topology{query}", text.encode(), **headers).json())

    def _headers(self, kind: str) -> dict[str, str]:
        return {"Content_Type": kind} | ({"If_Match": self._etag} if self._etag else {})

    def _status(self) -> dict[str, Any]:
        return dict(self._client.ask("GET", "/api/status").json())


def _scheduled(topology: Topology, document: Mapping[str, Any]) -> Topology:
    """The topology with its lanes as a status says that its schedule asks for them now."""
    lanes = {one["name"]: one["settings"] for one in document["lanes"]}
    tree = {"name": topology.name, "hub": topology.hub, "subnet": str(topology.subnet), "lanes": lanes}
    return loader.build(yaml_source.of_json(tree, "remote status"))


def _query(confirm: float | None) -> str:
    return "" if confirm is None else f"?confirm={round(confirm * 1000)}ms"


def _steps(document: Mapping[str, Any]) -> list[Step]:
    """The steps of the daemon's answer."""
    return steps_of(document["steps"])


def remote(url: str, state: Path) -> RemoteAppliance:
    """The appliance at `url`; the token from $LONGHAUL_TOKEN, else from this machine's own file (a local daemon)."""
    token = os.environ.get(TOKEN, "").strip()
    if not token and not url.startswith("unix:"):
        try:
            token = kept_file.read(state / "token", bounded_file.TOKEN).decode("ascii").strip()
        except (OSError, ValueError):  # none, or a spoilt one, which the daemon will replace
            token = ""
    return RemoteAppliance(Client(url, token or None))
