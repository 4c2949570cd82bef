"""Histograms of the round trip, idle and under load: they show how much the streams' own queue adds to the RTT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emulator.analysis.latency_histogram import Latency
from emulator.experiment.cell_result import CellResult
from emulator.report.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

BINS = 40
LEAST_SHARE, LEAST_MS = 0.02, 0.2
"""The chart is at least this share of the RTT wide, so that jitter of microseconds does not look like a queue."""
IDLE, LOADED = style.COLOURS[0], style.COLOURS[1]


def chosen(cells: Sequence[CellResult]) -> list[CellResult]:
    """At most two rows of three charts; the RTTs of each column are well apart."""
    columns = style.columns_of(cell for cell in cells if cell.delays.idle and cell.delays.loaded)
    some = style.spread(list(columns.values()), style.LINES)
    each = max(1, style.LINES // max(1, len(some)))
    return [cell for inside in some for cell in style.spread(inside, each)]


def histograms(cells: Sequence[CellResult], canvas: Canvas) -> None:
    """Draw one chart for each cell."""
    rows = -(-len(cells) // style.PANELS)
    charts: Any = canvas.subplots(rows, min(len(cells), style.PANELS), squeeze=False)
    names, shared = style.names_of(dict.fromkeys(cell.spec.column for cell in cells))
    handles: list[Any] = []
    flat = charts.flatten()
    for axes, cell in zip(flat, cells, strict=False):
        handles = _one(axes, cell)
        axes.set_title(f"{style.rtt_text(cell)}, {names[cell.spec.column]}")
    for axes in flat[len(cells) :]:
        axes.set_visible(False)
    for row in charts:
        row[0].set_ylabel("% of probes")
    for axes in flat[max(0, len(cells) - style.PANELS) : len(cells)]:
        axes.set_xlabel("round trip, ms")
    style.legend_below(canvas, handles, shared)
    engine = canvas.get_layout_engine()
    if engine:
        engine.set(hspace=0.12)  # type: ignore[call-arg]


def _one(axes: Axes, cell: CellResult) -> list[Any]:
    assert cell.delays.idle
    assert cell.delays.loaded
    low = min(value for series in (cell.delays.idle, cell.delays.loaded) for value, _ in series.histogram) / 1e6
    high = max(value for series in (cell.delays.idle, cell.delays.loaded) for value, _ in series.histogram) / 1e6
    width = max((high - low) * 1.02, LEAST_SHARE * style.rtt_ms(cell), LEAST_MS)
    edges = [low + width * (place - 1) / BINS for place in range(BINS + 2)]
    drawn = [
        _bars(axes, edges, cell.delays.idle, IDLE, "idle"),
        _bars(axes, edges, cell.delays.loaded, LOADED, "under load"),
    ]
    axes.set(ylim=(0, 100))
    axes.ticklabel_format(useOffset=False)
    return drawn


def _bars(axes: Axes, edges: Sequence[float], series: Latency, colour: str, name: str) -> Any:
    total = sum(count for _, count in series.histogram)
    values = [value / 1e6 for value, _ in series.histogram]
    weights = [100 * count / total for _, count in series.histogram]
    drawn: Any = axes.hist(
        values, bins=list(edges), weights=weights, histtype="stepfilled", color=colour, alpha=0.45,
        edgecolor=colour, linewidth=1.2, label=name,
    )  # fmt: skip
    return drawn[2][0]
