"""The endpoint of one cell over the time of its measurement: streams beside theory, or groups of flows side by side."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace
from pydantic import Field
from werkzeug.exceptions import NotFound

from emulator.analysis import tcp_path
from emulator.analysis.theory_over_time import Theory, ceiling_of
from emulator.analysis.transfer import Transfer
from emulator.analysis.verdict import Judgement, Throughput
from emulator.errors import no_such
from emulator.experiment.cell_result import CellResult
from emulator.experiment.flows_result import FlowsResult
from web.api.routing import EndpointTable
from web.api.schemas import Answer
from web.context import here
from web.runs import Run

table = EndpointTable()

NO_RAMP = (
    "Congestion window and RTT over time are not in this result: an older version of Longhaul wrote it, "
    "or nobody recorded them."
)
NO_STREAMS = "Only a cell of streams or of groups of flows has its throughput over time here."
WAITING = "This cell is not measured yet."
FAILED = "This cell failed: it has no result."


class IntervalsAnswer(Answer):
    """Payload at the receiver, as columns of equal length: intervals of the run, and the mean of each."""

    start_s: list[float]
    end_s: list[float]
    bytes_per_s: list[float]
    expected_bytes_per_s: list[float] = Field(description="theory: the slow start, then the ceiling")


class RampAnswer(Answer):
    """The sender over time, as columns of equal length: the sum of all streams' windows, and their mean RTT."""

    end_s: list[float]
    cwnd_bytes: list[int]
    expected_bytes: list[float | None] = Field(description="theory: the windows that carry the ceiling; null at RTT 0")
    rtt_ns: list[int]


class CeilingAnswer(Answer):
    """The law that bounds the throughput; `named`: the verdict names it, else theory expected it."""

    law: str
    bytes_per_s: float
    named: bool


class DirectionOverTimeAnswer(Answer):
    """One direction of a cell over time. `ramp` has empty columns where it is not known; `untold` says why."""

    direction: str
    limiter: str
    ceiling: CeilingAnswer
    slow_start_s: float = Field(description="theory: how long the windows double")
    steady_from_s: float
    steady_bytes_per_s: float = Field(description="of all repeats; the columns are of the median one")
    full_queue_rtt_ns: int | None = Field(description="the RTT with a full queue; null where nobody chose its buffer")
    intervals: IntervalsAnswer
    ramp: RampAnswer
    untold: str


class GroupOverTimeAnswer(Answer):
    """One group of flows over time, as columns of equal length; null while none of its flows is connected."""

    group: str
    bytes_per_s: list[float]
    cwnd_bytes: list[int | None] = Field(description="the sum of its flows' windows")
    queueing_ns: list[int | None] = Field(description="by how much its smoothed RTTs exceed that of the idle lane")


class ContestOverTimeAnswer(Answer):
    """Groups of flows that share a lane, in intervals of equal length; the table's figures are of the steady part."""

    interval_s: float
    steady_from_s: float
    steady_until_s: float
    line_bytes_per_s: float
    groups: list[GroupOverTimeAnswer]


class CellOverTimeAnswer(Answer):
    """A cell over time: its median measurement. It has `directions` of streams, or the `contest` of groups of flows;
    where it has neither, `untold` says why."""

    run: str
    id: str
    rtt_ns: int
    repeats: int
    directions: list[DirectionOverTimeAnswer]
    contest: ContestOverTimeAnswer | None
    untold: str


@table("GET", "/api/runs/<name>/cells/<cell>", CellOverTimeAnswer)
def cell_over_time(name: str, cell: str) -> CellOverTimeAnswer:
    """One cell over time: throughput, congestion window and RTT, with what theory says, or of each group of flows."""
    try:
        run = here().runs.get(name)
    except KeyError:
        raise NotFound(f"no run {name!r}") from None
    return over_time(run, cell)


def over_time(run: Run, cell: str) -> CellOverTimeAnswer:
    """The answer about one cell of a run. Raises NotFound."""
    spec = next((one for one in run.specs if one.id == cell), None)
    if spec is None:
        raise NotFound(no_such("cell", cell, [one.id for one in run.specs]))
    result = run.found.get(cell)
    directions = list(_directions(result)) if isinstance(result, CellResult) else []
    contest = _contest(result) if isinstance(result, FlowsResult) else None
    untold = "" if directions or contest else NO_STREAMS if result else FAILED if cell in run.failures else WAITING
    repeats = len(result.repeats) if result else 0
    return CellOverTimeAnswer(
        run=run.id, id=cell, rtt_ns=spec.lane.rtt_ns, repeats=repeats, directions=directions, contest=contest,
        untold=untold,
    )  # fmt: skip


def _contest(result: FlowsResult) -> ContestOverTimeAnswer:
    """The groups of a cell."""
    flows = result.flows
    interval_s = flows.interval_ns / 1e9
    groups = [
        GroupOverTimeAnswer(
            group=group.title,
            bytes_per_s=[count / interval_s for count in figures.series_bytes],
            cwnd_bytes=list(figures.windows_bytes),
            queueing_ns=figures.queueing_over_time_ns(group.rtt_ns or result.delays.rtt_ns),
        )
        for group, figures in zip(result.contest.groups, flows.groups, strict=True)
    ]
    return ContestOverTimeAnswer(
        interval_s=interval_s,
        steady_from_s=flows.from_ns / 1e9,
        steady_until_s=flows.until_ns / 1e9,
        line_bytes_per_s=result.judgement.line_bytes_per_s,
        groups=groups,
    )


def _directions(result: CellResult) -> Iterator[DirectionOverTimeAnswer]:
    """The cell's one direction, or both."""
    if not result.ways:
        loaded = result.sockets.rtt_ns if result.sockets else None
        whole = (result.throughput, result.transfer, result.judgement)
        yield _direction(result, result.spec.direction, *whole, loaded_rtt_ns=loaded)
    for way in result.ways:
        yield _direction(result, way.direction, way.throughput, way.transfer, way.judgement)


def _direction(
    result: CellResult, direction: str, throughput: Throughput, transfer: Transfer, judgement: Judgement, *,
    loaded_rtt_ns: int | None = None,
) -> DirectionOverTimeAnswer:  # fmt: skip
    spec = replace(result.spec, direction=direction)
    ceiling = ceiling_of(judgement)
    theory = Theory(spec.path, ceiling, spec.profile.initcwnd or tcp_path.INITCWND_SEGMENTS, loaded_rtt_ns)
    intervals, ramp = tcp_path.whole(transfer.intervals), transfer.ramp
    return DirectionOverTimeAnswer(
        direction=direction,
        limiter=judgement.limiter,
        ceiling=CeilingAnswer(law=ceiling.law, bytes_per_s=ceiling.bytes_per_s, named=ceiling.named),
        slow_start_s=theory.slow_start_s,
        steady_from_s=throughput.steady_from_s,
        steady_bytes_per_s=throughput.steady_bytes_per_s,
        full_queue_rtt_ns=theory.full_queue_rtt_ns,
        intervals=IntervalsAnswer(
            start_s=[one.start_s for one in intervals],
            end_s=[one.end_s for one in intervals],
            bytes_per_s=[one.bytes_per_s for one in intervals],
            expected_bytes_per_s=theory.rates(intervals),
        ),
        ramp=RampAnswer(
            end_s=[one.end_s for one in ramp],
            cwnd_bytes=[one.cwnd_bytes for one in ramp],
            expected_bytes=[theory.window_at(one.end_s) for one in ramp],
            rtt_ns=[one.rtt_ns for one in ramp],
        ),
        untold="" if ramp else NO_RAMP,
    )
