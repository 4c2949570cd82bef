"""The API's answers: their schemas, from which the OpenAPI document is made, and the functions that build them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from emulator.plan.ops import Step


class Answer(BaseModel):
    """An answer of the API; every field is always present."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class StepAnswer(Answer):
    """One operation: the equivalent ip or tc command, and the reason."""

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
    warnings: list[str] = Field(description="what the request does although the user likely does not mean it")


class DirectionAnswer(Answer):
    """The kernel's state of one direction of a lane; drops that the kernel does not count separately are null."""

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
    drops_since_loss: int | None = Field(
        description="netem's counter of a direction that lost packets at random and no longer does: "
        "it grows by drops by limit alone; null with any other"
    )
    not_permitted: list[str] = Field(
        description="rights that the kernel refused the wire engine's thread; empty with netem"
    )
    drops_above_pps: int | None = Field(
        description="netem drops by its limit above so many packets per second; null where the rate allows fewer"
    )
    drops_above_pps_buffer_full: int | None = Field(
        description="the same while the bottleneck's buffer is full; null without a bottleneck, too"
    )


class FlowAnswer(Answer):
    """Both directions of a flow, as DirectionAnswer for a lane."""

    outbound: DirectionAnswer
    inbound: DirectionAnswer


class LaneAnswer(Answer):
    """A lane: the requested state (`rtt_ns`, `settings` as in a topology file) and the present one.

    `asked_ns` is the RTT in effect: `rtt_ns`, or 0 while the lane is off.

    On a lane with flows, `outbound` and `inbound` describe the packets of no flow.
    """

    name: str
    rtt_ns: int
    asked_ns: int
    off: bool = Field(description="its settings except the bottleneck have no effect")
    settings: dict[str, Any]
    outbound: DirectionAnswer
    inbound: DirectionAnswer
    flows: dict[str, FlowAnswer] = Field(description="by name, in the order of matching")


class PathAnswer(Answer):
    """Two sites and the requested RTT between them, by way of the hub."""

    one: str = Field(alias="from")
    other: str = Field(alias="to")
    rtt_ns: int


class LatenessAnswer(Answer):
    """The lateness of a schedule's changes; `histogram` counts those below each of `buckets_ns`, and the later ones."""

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
    blocked: dict[str, str] = Field(description="by lane, why Longhaul cannot repair it at present")
    pending: PendingAnswer | None
    leased: bool = Field(description="a test run or verification has leased the lanes: no change until it ends")
    borrowed: bool = Field(
        description="the old name of `leased`; the next release removes it", json_schema_extra={"deprecated": True}
    )
    back_to: str | None = Field(
        description="the topology that returns when the test run ends, or when the pending change is not confirmed; "
        "null for none"
    )
    datapath: str = Field(description="what impairs the frames: netem or wire")
    paths: list[PathAnswer]
    schedule: LatenessAnswer | None = Field(
        description="the lateness of the schedule's changes so far; null if none is played"
    )
    changing: bool = Field(
        description="somebody was changing the lanes at that moment: `drift` may be what is still to be done"
    )


class RangeAnswer(Answer):
    """The range of a slider, in the kind's base unit (ns, bit/s, bytes, %)."""

    low: float
    high: float
    log: bool


class ChoiceAnswer(Answer):
    """A word that a key may have, and its label."""

    word: str
    label: str


class KeyAnswer(Answer):
    """One impairment with the data that a form needs."""

    name: str
    kind: str = Field(description="time, rate, size, octets, share, loss, count or choice")
    label: str
    help: str
    value_schema: dict[str, Any] = Field(description="JSON Schema of its value")
    at_rest: Any = Field(description="its value without effect; null: only omitting the key means no effect")
    choices: list[ChoiceAnswer]
    range: RangeAnswer | None
    extra_units: dict[str, str] = Field(
        description="units that cannot be converted to the others, and the word before such a number"
    )
    needs_rate: bool = Field(description="it is a setting of the bottleneck")
    schedulable: bool
    everyday: bool
    one_way: bool = Field(description="it belongs to one direction, never to a lane as a whole")


class MatchKeyAnswer(Answer):
    """A key of a flow's match."""

    name: str
    help: str
    examples: list[str]


class KeysAnswer(Answer):
    """The impairments that a direction of a lane may have, and what may tell the packets of a flow from others."""

    keys: list[KeyAnswer]
    match: list[MatchKeyAnswer]
    most_flows: int = Field(description="the most flows of a lane")


class HealthAnswer(Answer):
    """The daemon runs; the ages of its last observation and of the watchdog's last check (at least every 10 s)."""

    status: str
    version: str
    uptime_s: float
    sampled_s_ago: float | None
    watched_s_ago: float | None


class AuthorAnswer(Answer):
    """Who made a change; `command` is the command line, or `watchdog`, `revert`, or how the request came in."""

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
    lanes: list[str] = Field(description="the lanes that it changed, added or removed")
    etag: str = Field(description="the entity tag of the topology after it")


class HistoryAnswer(Answer):
    """The last changes, the newest first."""

    entries: list[EntryAnswer]


class NicsAnswer(Answer):
    """The machine's interfaces, and the free ones in pairs of one speed and MTU."""

    nics: list[dict[str, Any]]
    pairs: list[list[str]]


class MistakeAnswer(Answer):
    """One mistake in a request: where, at which field, what is wrong and what to use."""

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
    """The steps as their equivalent commands."""
    return [StepAnswer(command=str(step.op), why=step.why) for step in steps]
