"""The ramp: throughput and congestion window over time, which shows the slow start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emulator.analysis import tcp_path
from emulator.experiment.cell_result import CellResult
from emulator.report.figures import style
from emulator.report.figures.style import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

LEAST_MIB = 0.01
"""The first window, 10 segments, is 0.014 MiB."""
ROOM = 1.3


def drawable(cells: Sequence[CellResult]) -> list[CellResult]:
    """The cells whose ramp was recorded."""
    return [cell for cell in cells if _rates(cell) and _windows(cell)]


def panels(cells: Sequence[CellResult]) -> list[tuple[str, list[tuple[str, CellResult]]]]:
    """Group the cells: title and named lines of each panel. The more numerous of RTTs and columns become the lines."""
    columns = style.columns_of(cells)
    names, shared = style.names_of(columns)
    by_rtt: dict[int, list[CellResult]] = {}
    for cell in cells:
        by_rtt.setdefault(cell.spec.lane.rtt_ns, []).append(cell)
    if len(by_rtt) >= len(columns):
        rtts = style.spread(sorted(by_rtt), style.LINES)
        return [
            (names[column], [(style.rtt_text(c), c) for c in inside if c.spec.lane.rtt_ns in rtts])
            for column, inside in style.spread(list(columns.items()), style.PANELS)
        ]
    return [
        (
            ", ".join(part for part in (style.rtt_text(inside[0]), shared) if part),
            [(names[c.spec.column], c) for c in style.spread(inside, style.LINES)],
        )
        for _, inside in style.spread(sorted(by_rtt.items()), style.PANELS)
    ]


def over_time(cells: Sequence[CellResult], canvas: Canvas) -> None:
    """Draw two charts for each panel: throughput at the receiver above, the sender's windows below."""
    groups = panels(cells)
    charts: Any = canvas.subplots(2, len(groups), sharex="col", sharey="row", squeeze=False)
    by_name = {name: cell for _, lines in groups for name, cell in lines}
    names = sorted(by_name, key=lambda name: by_name[name].spec.lane.rtt_ns)
    handles: dict[str, Any] = {}
    for (title, lines), top, bottom in zip(groups, *charts, strict=True):
        top.set_title(title)
        bottom.set_xlabel("seconds from the start")
        for name, cell in lines:
            colour = style.COLOURS[names.index(name) % len(style.COLOURS)]
            rates, windows = _rates(cell), _windows(cell)
            top.plot(*zip(*rates, strict=True), color=colour)
            (handles[name],) = bottom.plot(*zip(*windows, strict=True), color=colour, label=name)
        bottom.set_xlim(left=0)
    shown = [cell for _, lines in groups for _, cell in lines]
    _logarithmic(charts[0][0], "throughput, MiB/s", [value for cell in shown for _, value in _rates(cell)])
    style.gbit_at_the_right(charts[0][-1], "throughput, Gbit/s")
    _logarithmic(charts[1][0], "congestion window, MiB", [value for cell in shown for _, value in _windows(cell)])
    style.legend_below(canvas, [handles[name] for name in names])


def _rates(cell: CellResult) -> list[tuple[float, float]]:
    """(seconds, MiB/s) at the receiver, without values that a logarithmic axis cannot show."""
    whole = tcp_path.whole(cell.transfer.intervals)
    return [(i.end_s, i.bytes_per_s / MIB) for i in whole if i.bytes_per_s / MIB >= LEAST_MIB]


def _windows(cell: CellResult) -> list[tuple[float, float]]:
    """(seconds, MiB) summed over all streams."""
    return [(m.end_s, m.cwnd_bytes / MIB) for m in cell.transfer.ramp if m.cwnd_bytes / MIB >= LEAST_MIB]


def _logarithmic(axes: Axes, label: str, values: Sequence[float]) -> None:
    low, high = min(values) / ROOM, max(values) * ROOM
    axes.set(yscale="log", ylabel=label, ylim=(low, high))
    style.plain_logarithmic(axes, "y", low, high)
