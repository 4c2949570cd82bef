"""The figure of groups of flows over time: what each got, its congestion windows, and the queue that it saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emulator.analysis.flow_figures import GroupFigures
from emulator.experiment.flows_result import FlowsResult
from emulator.model.flow_group import FlowGroup
from emulator.report.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

MOST_CELLS = 12
"""Of a run: as many figures as a reader may look through."""


def drawable(cells: Sequence[FlowsResult]) -> list[FlowsResult]:
    """The cells of several groups; of many, some evenly spaced ones."""
    return style.spread([cell for cell in cells if len(cell.contest.groups) > 1], MOST_CELLS)


def over_time(cell: FlowsResult, canvas: Canvas) -> None:
    """Draw throughput, windows and queueing of every group, one below the other."""
    charts: Any = canvas.subplots(3, 1, sharex=True)
    seconds = [(at + 1) * cell.flows.interval_ns / 1e9 for at in range(len(cell.flows.groups[0].series_bytes))]
    handles = []
    for number, (group, figures) in enumerate(zip(cell.contest.groups, cell.flows.groups, strict=True)):
        look = {"color": style.COLOURS[number % len(style.COLOURS)], "linewidth": 1.2}
        for chart, values in zip(charts, _lines(cell, group, figures), strict=True):
            (line,) = chart.plot(seconds[: len(values)], values, label=group.title, **look)
        handles.append(line)
    line_mib = cell.judgement.line_bytes_per_s / style.MIB
    charts[0].axhline(line_mib, color=style.INK, linestyle=":", linewidth=1)
    for chart, label in zip(charts, ("MiB/s", "windows, MiB", "queueing, ms"), strict=True):
        chart.set(ylabel=label, ylim=(0, None))
        chart.axvspan(cell.flows.from_ns / 1e9, cell.flows.until_ns / 1e9, color=style.RULE, alpha=0.25, linewidth=0)
    charts[-1].set(xlabel="time, s", xlim=(0, seconds[-1]))
    style.legend_below(canvas, handles)


def _lines(cell: FlowsResult, group: FlowGroup, figures: GroupFigures) -> tuple[list[float], list[float], list[float]]:
    """Throughput in MiB/s, windows in MiB and queueing in ms, in each interval; a gap where nothing is known."""
    rtt_ns, interval_s = group.rtt_ns or cell.delays.rtt_ns, cell.flows.interval_ns / 1e9
    rates = [count / interval_s / style.MIB for count in figures.series_bytes]
    windows = [math.nan if one is None else one / style.MIB for one in figures.windows_bytes]
    queueing = [math.nan if one is None else one / 1e6 for one in figures.queueing_over_time_ns(rtt_ns)]
    return rates, windows, queueing
