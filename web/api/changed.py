"""The endpoint that says what was asked of each lane, and who changed it last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict
from pydantic import Field

from emulator.config.lane_patch import lane_tree
from emulator.control.change_log import LoggedChange
from emulator.control.status_document import etag_of
from web.api.routing import EndpointTable
from web.api.schemas import Answer, AuthorAnswer
from web.context import here

table = EndpointTable()


class LastChangeAnswer(Answer):
    """The last change of a lane; `number` is that of its entry in the history."""

    number: int
    when: str
    author: AuthorAnswer
    summary: str


class OwnLaneAnswer(Answer):
    """A lane as it was asked for, and who changed it last: null where the history no longer has it."""

    settings: dict[str, Any] = Field(description="as in a topology file, whatever a schedule asks for at present")
    last: LastChangeAnswer | None


class ChangedAnswer(Answer):
    """The lanes of what is up by name; `etag` is that of the topology."""

    etag: str
    lanes: dict[str, OwnLaneAnswer]


@table("GET", "/api/changed", ChangedAnswer, problems=(503,))
def changed() -> ChangedAnswer:
    """What was asked of each lane, apart from a schedule, and its last change: when, who, what."""
    usecases = here().usecases
    topology = usecases.topology()
    lanes = topology.lanes if topology else ()
    last = _last(usecases.last_changes(), [lane.name for lane in lanes])
    own = {lane.name: OwnLaneAnswer(settings=lane_tree(lane), last=last.get(lane.name)) for lane in lanes}
    return ChangedAnswer(etag=etag_of(topology), lanes=own)


def _last(newest_first: Iterable[LoggedChange], names: Iterable[str]) -> dict[str, LastChangeAnswer]:
    """By lane its last change."""
    missing, found = set(names), dict[str, LastChangeAnswer]()
    for change in newest_first:
        if not missing:
            break
        author = AuthorAnswer(**asdict(change.author))
        answer = LastChangeAnswer(number=change.number, when=change.when, author=author, summary=change.summary)
        here_changed = missing.intersection(change.lanes)
        found |= dict.fromkeys(here_changed, answer)
        missing -= here_changed
    return found
