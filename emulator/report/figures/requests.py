"""Two figures of requests: the times of each number of users and size, and the rate against concurrency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from emulator import units
from emulator.analysis import request_figures
from emulator.analysis.request_figures import RequestTimes
from emulator.experiment.requests_result import RequestsResult, paths_of
from emulator.report import request_table, tables
from emulator.report.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

MOST_ROWS, MOST_COLUMNS = 6, 5
BINS, CURVE = 36, 200
LEAST_RATIO = 1.5
"""Of the last to the first time of the matrix: jitter of microseconds must not look like a spread."""
LEAST_PERCENT = 0.005
"""The lower end of the axis, which is logarithmic: one slow request among thousands is seen."""
MOST_TRIPS = 100.0
"""The round trips at which the colours end."""
Matrix = dict[tuple[int, int], RequestsResult]
"""The cells by requests in flight and size of the answer."""


def matrices(cells: Sequence[RequestsResult]) -> dict[str, Matrix]:
    """For each RTT and each other setting the cells by users and size of the answer, where both or one of them vary.

    Users are connections x in flight. Of cells that differ in nothing else the first is drawn.
    """
    groups: dict[str, Matrix] = {}
    for cell in cells:
        group = groups.setdefault(_besides(cell), {})
        group.setdefault((cell.load.places, cell.load.answer_bytes), cell)
    return {name: group for name, group in groups.items() if len(group) > 1}


def _besides(cell: RequestsResult) -> str:
    """The cell's settings besides users and size of the answer."""
    load = cell.load
    own = [
        f"requests of {units.format_size(load.request_bytes)}",
        *([f"think {units.format_duration(load.think_ns)}"] if load.think_ns else []),
        *([f"{load.offered_per_s:g}/s offered"] if load.offered_per_s else []),
    ]
    return f"RTT {_rtt_ms(cell):g} ms, {cell.spec.column.replace(load.title, ', '.join(own))}"


def _rtt_ms(cell: RequestsResult) -> float:
    return cell.spec.lane.rtt_ns / 1e6


def users_by_size(group: Matrix, canvas: Canvas) -> None:
    """Draw a histogram of the times for each number of users and each size, coloured by the round trips they took."""
    users = style.spread(sorted({place[0] for place in group}), MOST_ROWS)
    sizes = style.spread(sorted({place[1] for place in group}), MOST_COLUMNS)
    charts: Any = canvas.subplots(len(users), len(sizes), sharex=True, sharey=True, squeeze=False)
    edges = _edges([cell for place, cell in group.items() if place[0] in users and place[1] in sizes])
    for row, number in enumerate(users):
        for column, size in enumerate(sizes):
            _histogram(charts[row][column], group.get((number, size)), edges)
        charts[row][0].set_ylabel(f"{number} in flight\n% of requests")
    for column, size in enumerate(sizes):
        charts[0][column].set_title(f"answers of {units.format_size(size)}", pad=16)
        charts[-1][column].set_xlabel("time of a request, ms")
    first = next(iter(group.values()))
    if first.spec.lane.rtt_ns:
        canvas.colorbar(_colours(), ax=charts.ravel().tolist(), label="round trips", pad=0.01)


def _edges(cells: Sequence[RequestsResult]) -> list[float]:
    """The edges of the bars in ms, evenly spaced on a logarithmic axis over the times of all cells."""
    low = min(cell.requests.times.min_ns for cell in cells) / 1e6
    high = max(cell.requests.times.max_ns for cell in cells) / 1e6
    low, high = max(low, 1e-3) / 1.05, max(high, low * LEAST_RATIO, 2e-3) * 1.05
    return [low * (high / low) ** (place / BINS) for place in range(BINS + 1)]


def _colours() -> Any:
    import matplotlib as mpl
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm

    # Without its lightest part, which is hard to see on white.
    shades = ListedColormap([mpl.colormaps["viridis_r"](0.25 + 0.75 * step / 255) for step in range(256)])
    return ScalarMappable(LogNorm(1, MOST_TRIPS), cmap=shades)


def _histogram(axes: Axes, cell: RequestsResult | None, edges: Sequence[float]) -> None:
    axes.set(xscale="log", xlim=(edges[0], edges[-1]), yscale="log", ylim=(LEAST_PERCENT, 100))
    style.plain_logarithmic(axes, "x", edges[0], edges[-1])
    style.plain_logarithmic(axes, "y", LEAST_PERCENT, 100)
    axes.grid(visible=False)
    if cell is None or not cell.requests.times.count:
        axes.text(0.5, 0.5, "-", ha="center", va="center", transform=axes.transAxes)
        return
    heights = shares(cell.requests.times, edges)
    middles = [math.sqrt(left * right) for left, right in pairwise(edges)]
    widths = [right - left for left, right in pairwise(edges)]
    rtt_ms, colours = _rtt_ms(cell), _colours()
    shades = [colours.to_rgba(max(1.0, min(MOST_TRIPS, ms / rtt_ms))) if rtt_ms else style.COLOURS[0] for ms in middles]
    axes.bar(list(edges[:-1]), heights, widths, align="edge", color=shades)
    times = cell.requests.times
    mark = tables.INVALID_MARK if cell.judgement.invalid else ""
    text = f"{mark}{request_table.rate_text(cell.figure)}   p50 {_ms(times.p50_ns)}   p99.9 {_ms(times.p99_9_ns)}"
    axes.text(0.5, 1.02, text, ha="center", va="bottom", transform=axes.transAxes, fontsize=7)


def shares(times: RequestTimes, edges: Sequence[float]) -> list[float]:
    """The percentage of the requests between each two edges, in ms."""
    heights = [0.0] * (len(edges) - 1)
    ratio = math.log(edges[1] / edges[0])
    for ns, count in times.histogram:
        place = int(math.log(max(ns / 1e6, edges[0]) / edges[0]) / ratio)
        heights[min(place, len(heights) - 1)] += 100 * count / times.count
    return heights


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.3g}" if ns < 10**8 else f"{ns / 1e6:.0f}"


def lines(cells: Sequence[RequestsResult]) -> dict[str, list[RequestsResult]]:
    """The cells of each line against concurrency, by rising concurrency: those that differ in nothing else."""
    groups: dict[str, list[RequestsResult]] = {}
    for cell in cells:
        if not cell.load.is_open:
            name = f"{_besides(cell)}, answers of {units.format_size(cell.load.answer_bytes)}"
            groups.setdefault(name, []).append(cell)
    several = {name: sorted(inside, key=lambda one: one.load.places) for name, inside in groups.items()}
    return {name: inside for name, inside in several.items() if len({one.load.places for one in inside}) > 1}


def against_concurrency(cells: Sequence[RequestsResult], canvas: Canvas) -> None:
    """Draw the rate against connections x in flight; the ceilings of the round trips and of the line are dotted."""
    from matplotlib.lines import Line2D

    axes: Axes = canvas.subplots()
    groups = dict(style.spread(list(lines(cells).items()), style.LINES))
    names, shared = style.names_of(groups)
    handles: list[Any] = []
    for number, (name, inside) in enumerate(groups.items()):
        look, places = style.style_of(number), [cell.load.places for cell in inside]
        axes.plot(places, [cell.figure for cell in inside], linestyle="-", linewidth=0.8, **look)
        axes.plot(*_ceilings(inside), linestyle=":", color=look["color"])
        wrong = [cell for cell in inside if cell.judgement.invalid]
        axes.plot([c.load.places for c in wrong], [c.figure for c in wrong], "x", color=style.BAD, markersize=9)
        handles.append(Line2D([], [], label=names[name], **look))
    handles.append(Line2D([], [], linestyle=":", color=style.INK, label="ceiling"))
    axes.set(xscale="log", yscale="log", xlabel="connections x in flight", ylabel="requests a second")
    for which, limits in (("x", axes.get_xlim()), ("y", axes.get_ylim())):
        style.plain_logarithmic(axes, which, *limits)
    style.legend_below(canvas, handles, shared)


def _ceilings(cells: Sequence[RequestsResult]) -> tuple[list[float], list[float]]:
    """The ceiling at many places between the first and the last cell."""
    load, paths = cells[0].load, paths_of(cells[0].spec)
    least, ratio = load.places, cells[-1].load.places / load.places
    one = request_figures.round_trip_ceiling(load, paths.rtt_ns) / least
    line = request_figures.line_ceiling(load, paths)
    places = [least * ratio ** (step / CURVE) for step in range(CURVE + 1)]
    return places, [min(one * number, line) for number in places]
