"""A schedule as lines of text: one row for each figure that changes, with one column's height for each value. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from msgspec import Struct

from emulator import units
from emulator.model.impairment import Impairment
from emulator.model.timeline import DIRECTIONS, Timeline

LEVELS = "▁▂▃▄▅▆▇█"

FIGURES: dict[str, tuple[Callable[[Impairment], float], Callable[[float], str]]] = {
    "delay": (lambda x: x.delay_ns, lambda v: units.format_duration(round(v))),
    "jitter": (lambda x: x.jitter_ns, lambda v: units.format_duration(round(v))),
    "loss": (lambda x: x.mean_loss, lambda v: f"{v * 100:.4g}%"),
    "rate": (lambda x: x.rate_bps or 0, lambda v: units.format_rate(round(v)) if v else "none"),
}


class ChartRow(Struct, frozen=True):
    """One figure of one lane over the whole span: its least and greatest value, and its row of columns."""

    lane: str
    direction: str
    figure: str
    least: str
    greatest: str
    line: str


def span_ns(timeline: Timeline) -> int:
    """The span of the chart in ns: one loop, or from the start until shortly after the last key."""
    return timeline.schedule.loop_ns or timeline.schedule.last_ns * 21 // 20 or 10**9


def rows(timeline: Timeline, width: int) -> list[ChartRow]:
    """Every figure that changes. A column shows the value in its interval that differs most from the rest."""
    span = span_ns(timeline)
    edges = [span * column // width for column in range(width)]
    times = sorted({*edges, *(t for t in timeline.breakpoints() if t < span)})
    scheduled = [timeline.at(t) for t in times]
    starts = [bisect_left(times, edge) for edge in edges]
    found = []
    for lane in timeline.topology.sites:
        for figure, (of, text) in FIGURES.items():
            both = [[of(getattr(each.lane(lane), way)) for each in scheduled] for way in DIRECTIONS]
            # An odd RTT gives one direction one nanosecond more.
            slack = int(figure == "delay")
            same = all(abs(a - b) <= slack for a, b in zip(*both, strict=True))
            for direction, values in zip(["both"] if same else DIRECTIONS, both, strict=False):
                if len(set(values)) > 1:
                    line = _line(values, starts, lowest=figure == "rate")
                    found.append(ChartRow(lane, direction, figure, text(min(values)), text(max(values)), line))
    return found


def _line(values: list[float], starts: list[int], *, lowest: bool) -> str:
    pick = min if lowest else max
    columns = [pick(values[a:b]) for a, b in zip(starts, [*starts[1:], len(values)], strict=True)]
    least, most = min(values), max(values)
    return "".join(LEVELS[round((v - least) / (most - least) * (len(LEVELS) - 1))] for v in columns)


def changes(timeline: Timeline) -> int:
    """The number of instants in the span at which a value may change."""
    at, count = 0, 0
    while (after := timeline.next_change(at)) is not None and after <= span_ns(timeline):
        at, count = after, count + 1
    return count
