"""What all figures have in common: size, colours, which cells they choose, and how RTTs are written on an axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from emulator.experiment.cell_result import CellResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

T = TypeVar("T")
MIB = 2**20
WIDTH_INCHES = 9.6
INK, PAPER, RULE, BAD = "#1b1b1b", "#ffffff", "#c9c9c9", "#b00020"
COLOURS = ("#0072b2", "#c44e00", "#00795a", "#a8507f", "#8a6d00", "#5b5b5b")
"""After Okabe and Ito, told apart by the colour-blind, each with a contrast of 3 or more to the paper."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""One more than colours: the pairs repeat only after 42 lines."""
ON_DARK, ON_LIGHT = "#fefefe", "#010101"
"""Figures on the colours of a matrix, which are the same by day and by night."""
LINES = 6
"""More in one panel nobody tells apart."""
PANELS = 3
LONG_AXIS = 1e4
"""Last over first value of a logarithmic axis on which only powers of ten have room for a label."""

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
    """Colour and marker of the line of that number."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def columns_of(cells: Iterable[CellResult]) -> dict[str, list[CellResult]]:
    """The cells by column of the table, each by rising RTT."""
    columns: dict[str, list[CellResult]] = {}
    for cell in cells:
        columns.setdefault(cell.spec.column, []).append(cell)
    return {name: sorted(inside, key=lambda cell: cell.spec.lane.rtt_ns) for name, inside in columns.items()}


def names_of(columns: Iterable[str]) -> tuple[dict[str, str], str]:
    """What tells each column apart from the others, and what all have in common; a single one has all in its name."""
    parts = {column: column.split(", ") for column in columns}
    shared = [part for part in next(iter(parts.values()), []) if all(part in other for other in parts.values())]
    if len(parts) < 2:
        return {column: column for column in parts}, ""
    own = {column: ", ".join(part for part in all if part not in shared) for column, all in parts.items()}
    return own, ", ".join(shared)


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most so many of the items, the first and the last among them, the others evenly between."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[-1]]
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def rtt_ms(cell: CellResult) -> float:
    """The RTT that was asked for."""
    return cell.spec.lane.rtt_ns / 1e6


def rtt_text(cell: CellResult) -> str:
    """ "32 ms"."""
    return f"{rtt_ms(cell):g} ms"


def plain_logarithmic(axes: Axes, which: str, low: float, high: float) -> None:
    """Label a logarithmic axis with 1, 2, 5, 10... (1, 10, 100 where it is long), as far as they are in [low, high]."""
    from matplotlib.ticker import FixedLocator, NullLocator

    steps = (1, 2, 5) if high / low < LONG_AXIS else (1,)
    ticks = [step * 10.0**power for power in range(-4, 7) for step in steps if low <= step * 10.0**power <= high]
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def legend_below(canvas: Canvas, handles: Sequence[Any], title: str = "") -> None:
    """The legend under the axes, where it covers nothing."""
    canvas.legend(handles=handles, loc="outside lower center", ncols=min(LINES, len(handles)), title=title or None)
