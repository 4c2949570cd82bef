"""What all figures share: size, colours, the choice of cells, and the labels of an RTT axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from emulator.experiment.cell_result import CellResult
from emulator.units import MIB_BYTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

T = TypeVar("T")
MIB = MIB_BYTES
GBIT_PER_MIB = MIB * 8 / 1e9
WIDTH_INCHES = 9.6
INK, PAPER, RULE, BAD = "#1b1b1b", "#ffffff", "#c9c9c9", "#b00020"
COLOURS = ("#0072b2", "#c44e00", "#00795a", "#a8507f", "#8a6d00", "#5b5b5b")
"""After Okabe and Ito: distinguishable for colour-blind readers, with a contrast of at least 3 to the paper."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""One more than the colours, so that a pair repeats only after 42 lines."""
ON_DARK, ON_LIGHT = "#fefefe", "#010101"
"""The colour of numbers on a matrix; the same in the light and the dark theme."""
LINES = 6
"""The most lines in one panel that a reader can tell apart."""
PANELS = 3
LEGEND_CHARACTERS, LEGEND_MARK = 150, 8
"""How many characters fit below a figure, and what the mark and the gap of an entry take of them."""
LONG_AXIS = 1e4
"""Ratio of last to first value above which a logarithmic axis has room for labels at powers of ten only."""

STYLE: dict[str, Any] = {
    "svg.hashsalt": "longhaul",
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "grid.color": RULE,
    "grid.linewidth": 0.4,
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
}


def style_of(number: int) -> dict[str, Any]:
    """Colour and marker of the line with this number."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def columns_of(cells: Iterable[CellResult]) -> dict[str, list[CellResult]]:
    """The cells of each column of the table, by rising RTT."""
    columns: dict[str, list[CellResult]] = {}
    for cell in cells:
        columns.setdefault(cell.spec.column, []).append(cell)
    return {name: sorted(inside, key=lambda cell: cell.spec.lane.rtt_ns) for name, inside in columns.items()}


def names_of(columns: Iterable[str]) -> tuple[dict[str, str], str]:
    """What distinguishes each column, and what all columns share; a single column keeps everything in its name."""
    parts = {column: column.split(", ") for column in columns}
    shared = [part for part in next(iter(parts.values()), []) if all(part in other for other in parts.values())]
    if len(parts) < 2:
        return {column: column for column in parts}, ""
    own = {column: ", ".join(part for part in all if part not in shared) for column, all in parts.items()}
    return own, ", ".join(shared)


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most this many of the items: the first, the last, and evenly spaced ones between them."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[-1]]
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def rtt_ms(cell: CellResult) -> float:
    """The cell's requested RTT as text."""
    return cell.spec.lane.rtt_ns / 1e6


def rtt_text(cell: CellResult) -> str:
    """ "32 ms"."""
    return f"{rtt_ms(cell):g} ms"


def plain_logarithmic(axes: Axes, which: str, low: float, high: float) -> None:
    """Label a logarithmic axis at 1, 2, 5, 10... (at 1, 10, 100 where it is long) within [low, high]."""
    from matplotlib.ticker import FixedLocator, NullLocator

    steps = (1, 2, 5) if high / low < LONG_AXIS else (1,)
    ticks = [step * 10.0**power for power in range(-4, 7) for step in steps if low <= step * 10.0**power <= high]
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def _to_gbit(mib: Any) -> Any:
    return mib * GBIT_PER_MIB


def _to_mib(gbit: Any) -> Any:
    return gbit / GBIT_PER_MIB


GBIT = (_to_gbit, _to_mib)
"""What a second axis in Gbit/s is of one in MiB/s, and back."""


def gbit_at_the_right(axes: Axes, label: str) -> None:
    """Add an axis in Gbit/s at the right of a logarithmic one in MiB/s, which has its limits."""
    right: Any = axes.secondary_yaxis("right", functions=GBIT)
    right.set_ylabel(label)
    low, high = map(_to_gbit, axes.get_ylim())
    plain_logarithmic(right, "y", low, high)


def legend_below(canvas: Canvas, handles: Sequence[Any], title: str = "") -> None:
    """Draw the legend below the axes, where it covers nothing, in as many columns as fit."""
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, min(LINES, len(handles), LEGEND_CHARACTERS // (longest + LEGEND_MARK)))
    canvas.legend(handles=handles, loc="outside lower center", ncols=columns, title=title or None)
