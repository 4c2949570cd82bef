"""What the API answers: the shapes, from which the OpenAPI document is made, and how they are filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from emulator.plan.ops import Step


class Answer(BaseModel):
    """Every field is always there."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class StepAnswer(Answer):
    """One operation: the ip or tc command that it stands for, and why."""

    command: str
    why: str


class PendingAnswer(Answer):
    """A change that Longhaul reverts unless somebody confirms it."""

    seconds_left: float


class PlanAnswer(Answer):
    """A plan, performed or (with dry_run) only made."""

    summary: str
    changed: bool
    performed: bool
    steps: list[StepAnswer]
    warnings: list[str] = Field(description="what will be done although it is likely not meant")


class DirectionAnswer(Answer):
    """One direction of a lane as the kernel has it; drops that cannot be told apart are null."""

    port: str
    netem: dict[str, Any] | None = Field(description="sch_netem's attributes in the kernel's own integers")
    tbf: dict[str, Any] | None = Field(description="sch_tbf's attributes: the bottleneck; null without one")
    aqm: dict[str, Any] | None = Field(
        description="an active queue's attributes behind the bottleneck; null without one"
    )
    packets: int
    bytes: int
    queued_packets: int
    queued_bytes: int
    limit_packets: int
    drops_limit: int | None
    drops_buffer: int
    drops_loss: int | None
    not_permitted: list[str] = Field(description="what the kernel refused the wire engine's thread; empty with netem")


class FlowAnswer(Answer):
    """Both directions of a flow, as DirectionAnswer for a lane."""

    outbound: DirectionAnswer
    inbound: DirectionAnswer


class LaneAnswer(Answer):
    """A lane: asked (`rtt_ns`, `settings` as in a topology file) and present.

    On a lane with flows, `outbound` and `inbound` describe the packets of no flow.
    """

    name: str
    rtt_ns: int
    off: bool = Field(description="what is asked of it is without effect, but for the bottleneck")
    settings: dict[str, Any]
    outbound: DirectionAnswer
    inbound: DirectionAnswer
    flows: dict[str, FlowAnswer] = Field(description="by name, in the order in which they are tried")


class PathAnswer(Answer):
    """Two sites and the RTT asked for between them, by way of the hub."""

    one: str = Field(alias="from")
    other: str = Field(alias="to")
    rtt_ns: int


class LatenessAnswer(Answer):
    """How late a schedule's changes came; `histogram` counts those below each of `buckets_ns`, and the later ones."""

    changes: int
    skipped: int
    drifts: int
    max_ns: int
    total_ns: int
    mean_ns: float
    histogram: list[int]
    buckets_ns: list[int]


class StatusAnswer(Answer):
    """The intent and the kernel's state; `drift` are the steps that repair it."""

    topology: str | None
    hub: str | None
    etag: str
    lanes: list[LaneAnswer]
    drift: list[StepAnswer]
    blocked: dict[str, str] = Field(description="by lane, why it cannot be repaired at present")
    pending: PendingAnswer | None
    leased: bool = Field(description="a test run has the lanes: whatever would change them is refused until it ends")
    borrowed: bool = Field(
        description="the old name of `leased`; the next release removes it", json_schema_extra={"deprecated": True}
    )
    back_to: str | None = Field(
        description="the topology that comes back when the test run ends, or when what is pending is not confirmed; "
        "null for none"
    )
    datapath: str = Field(description="what moves the frames: netem or wire")
    paths: list[PathAnswer]
    schedule: LatenessAnswer | None = Field(
        description="how the schedule's changes came so far; null if none is played"
    )


class RangeAnswer(Answer):
    """What a slider covers, in the kind's base unit (ns, bit/s, bytes, %)."""

    low: float
    high: float
    log: bool


class ChoiceAnswer(Answer):
    """A word that a key may have, and what people read for it."""

    word: str
    label: str


class KeyAnswer(Answer):
    """One impairment, and all that a form needs to know of it."""

    name: str
    kind: str = Field(description="time, rate, size, octets, share, loss, count or choice")
    label: str
    help: str
    value_schema: dict[str, Any] = Field(description="JSON Schema of its value")
    at_rest: Any = Field(description="its value without effect; null: only leaving it out says that")
    choices: list[ChoiceAnswer]
    range: RangeAnswer | None
    extra_units: dict[str, str] = Field(description="units that cannot be converted, and the word before such a number")
    needs_rate: bool = Field(description="it says how the bottleneck works")
    schedulable: bool
    everyday: bool
    one_way: bool = Field(description="it is said of one direction, never of a lane as a whole")


class KeysAnswer(Answer):
    """The impairments that a direction of a lane may have."""

    keys: list[KeyAnswer]


class HealthAnswer(Answer):
    """The daemon is there; its last look at the lanes is so old, and the watchdog's (every 10 s at least)."""

    status: str
    version: str
    uptime_s: float
    sampled_s_ago: float | None
    watched_s_ago: float | None


class AuthorAnswer(Answer):
    """Who asked for a change; `command` is the command line, or `watchdog`, `revert`."""

    user: str
    uid: int
    pid: int
    command: str


class EntryAnswer(Answer):
    """One change of the past; `times` counts the repairs in a row that one entry stands for."""

    number: int
    when: str
    author: AuthorAnswer
    summary: str
    times: int
    diff: str


class HistoryAnswer(Answer):
    """The last changes, the newest first."""

    entries: list[EntryAnswer]


class NicsAnswer(Answer):
    """The machine's interfaces."""

    nics: list[dict[str, Any]]


class MistakeAnswer(Answer):
    """One thing wrong in a request: where, at which field, and what was expected."""

    where: str
    path: str
    text: str


class ProblemAnswer(Answer):
    """RFC 9457 problem details, with every mistake."""

    type: str
    title: str
    status: int
    detail: str
    mistakes: list[MistakeAnswer]


def step_answers(steps: Sequence[Step]) -> list[StepAnswer]:
    """Steps as the commands they stand for."""
    return [StepAnswer(command=str(step.op), why=step.why) for step in steps]
