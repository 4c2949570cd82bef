"""Throughput against RTT, measured and in theory; with a single RTT, throughput by the other axes of the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emulator.analysis import model_curve
from emulator.experiment.cell_result import CellResult
from emulator.report import published_results
from emulator.report.figures import style
from emulator.report.figures.style import MIB
from emulator.units import both_rates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

ZERO_SHARE = 0.4
"""RTT 0 has no place on a logarithmic axis: it is drawn left of the least RTT by this factor, without a line to it."""
BELOW, ABOVE = 0.7, 1.5
"""The margins below the least and above the greatest throughput."""


def against_rtt(cells: Sequence[CellResult], canvas: Canvas) -> None:
    """Draw one line for each column on log-log axes: measured with its confidence band, theory, and published
    values."""
    from matplotlib.lines import Line2D

    axes: Axes = canvas.subplots()
    columns = style.columns_of(cells)
    names, shared = style.names_of(columns)
    rtts = [style.rtt_ms(cell) for cell in cells if cell.spec.lane.rtt_ns]
    zero = min(rtts) * ZERO_SHARE
    axes.set(xscale="log", yscale="log", xlabel="RTT in ms", ylabel="MiB/s of payload")
    handles: list[Any] = []
    for number, (column, inside) in enumerate(columns.items()):
        handles += _column(axes, inside, names[column], number, zero)
    handles.append(Line2D([], [], color=style.INK, linestyle=":", label="theory"))
    _limits(axes, cells, zero, max(rtts))
    style.gbit_at_the_right(axes, "Gbit/s of payload")
    style.legend_below(canvas, handles, shared)


def _column(axes: Axes, cells: Sequence[CellResult], name: str, number: int, zero: float) -> list[Any]:
    look = style.style_of(number)
    far, near = ([c for c in cells if bool(c.spec.lane.rtt_ns) == is_far] for is_far in (True, False))
    (measured,) = axes.plot(*_points(far), **look, linewidth=1.0, label=name)
    axes.plot([zero] * len(near), [cell.steady_bytes_per_s / MIB for cell in near], linestyle="", **look)
    widths = [cell.half_width / MIB if len(cell.repeats) > 1 else 0.0 for cell in far]
    x, y = _points(far)
    low, high = ([max(1e-3, v + sign * w) for v, w in zip(y, widths, strict=True)] for sign in (-1, 1))
    axes.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0)
    curve = model_curve.theory(model_curve.ModelPoint(cell.spec.lane.rtt_ns, cell.judgement.laws) for cell in far)
    # On top, because theory and measurement mostly coincide.
    axes.plot([ns / 1e6 for ns, _ in curve], [v / MIB for _, v in curve], ":", color=style.INK, zorder=3)
    for cell in (cell for cell in cells if cell.judgement.invalid):
        axes.plot(style.rtt_ms(cell) or zero, cell.steady_bytes_per_s / MIB, "x", color=style.BAD, markersize=10)
    return [measured, *_published(axes, cells, look, name, zero)]


def _points(cells: Sequence[CellResult]) -> tuple[list[float], list[float]]:
    return [style.rtt_ms(cell) for cell in cells], [cell.steady_bytes_per_s / MIB for cell in cells]


def _published(axes: Axes, cells: Sequence[CellResult], look: dict[str, Any], name: str, zero: float) -> list[Any]:
    """Draw the published figures, hollow and dashed, where this experiment was published."""
    theirs = [
        (style.rtt_ms(cell), value / MIB) for cell in cells if (value := published_results.theirs(cell)) is not None
    ]
    if not theirs:
        return []
    hollow = {**look, "markerfacecolor": style.PAPER, "linewidth": 0.8, "markersize": 4}
    far = [point for point in theirs if point[0]]
    (line,) = axes.plot([x for x, _ in far], [y for _, y in far], "--", **hollow, label=f"{name}, published")
    axes.plot([zero for x, _ in theirs if not x], [y for x, y in theirs if not x], **hollow)
    return [line]


def _limits(axes: Axes, cells: Sequence[CellResult], zero: float, longest: float) -> None:
    """Fit the axes to the data with margins; RTT 0 has its own place."""
    values = [value for cell in cells for value in (cell.steady_bytes_per_s, published_results.theirs(cell)) if value]
    if not values:
        return
    low, high = min(values) / MIB * BELOW, max(values) / MIB * ABOVE
    has_zero = any(not cell.spec.lane.rtt_ns for cell in cells)
    left = zero * 0.8 if has_zero else zero / ZERO_SHARE * 0.8
    axes.set(xlim=(left, longest * 1.25), ylim=(low, high))
    style.plain_logarithmic(axes, "y", low, high)
    style.plain_logarithmic(axes, "x", zero / ZERO_SHARE * 0.99, longest * 1.25)
    if has_zero:
        ticks = [zero, *axes.get_xticks()]
        axes.set_xticks(ticks, ["0", *(f"{tick:g}" for tick in ticks[1:])])
        axes.axvspan(left, zero * 1.5, color=style.RULE, alpha=0.25, linewidth=0)


def by_column(cells: Sequence[CellResult], canvas: Canvas) -> None:
    """Draw one bar for each cell with its confidence interval; theory and published values are marks on it."""
    axes: Axes = canvas.subplots()
    names, shared = style.names_of(cell.spec.column for cell in cells)
    places = range(len(cells))
    values = [cell.steady_bytes_per_s / MIB for cell in cells]
    widths = [cell.half_width / MIB if len(cell.repeats) > 1 else 0.0 for cell in cells]
    axes.barh(places, values, height=0.55, color=style.COLOURS[0], xerr=widths, ecolor=style.INK, label="measured")
    theory = [cell.judgement.predicted_bytes_per_s / MIB for cell in cells]
    marks = [axes.plot(theory, places, "|", color=style.COLOURS[1], markersize=22, markeredgewidth=2, label="theory")]
    theirs = [(value / MIB, n) for n, cell in enumerate(cells) if (value := published_results.theirs(cell)) is not None]
    if theirs:
        look: dict[str, Any] = {"markerfacecolor": style.PAPER, "color": style.INK, "label": "published"}
        marks.append(axes.plot([x for x, _ in theirs], [y for _, y in theirs], "D", **look))
    for place, value in zip(places, values, strict=True):
        axes.text(1.01, place, both_rates(value * MIB), transform=axes.get_yaxis_transform(), va="center")
    axes.set_yticks(places, [_bar_name(cell, names, len({c.spec.lane.name for c in cells}) > 1) for cell in cells])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.secondary_xaxis("top", functions=style.GBIT).set_xlabel("Gbit/s of payload")
    axes.set(xlabel="MiB/s of payload", title=", ".join(p for p in (style.rtt_text(cells[0]), shared) if p))
    style.legend_below(canvas, [axes.containers[-1], *(mark[0] for mark in marks)])


def _bar_name(cell: CellResult, names: dict[str, str], several_lanes: bool) -> str:
    return f"{cell.spec.lane.name} {names[cell.spec.column]}" if several_lanes else names[cell.spec.column]
