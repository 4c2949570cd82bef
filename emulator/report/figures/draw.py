"""Draws the figures of a run with matplotlib: SVG for the report, PNG for other uses. Lines only, no 3-D."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from emulator.errors import MissingError
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.flows_result import FlowsResult
from emulator.experiment.requests_result import RequestsResult
from emulator.report import flow_table
from emulator.report.figures import completion, delays, flows, matrix, ramp, requests, style, throughput
from emulator.report.program_table import ProgramRow, Series, series_of
from emulator.system import installation

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


class Figure(Struct, frozen=True):
    """One drawing: its title, and the caption below it that explains how to read it."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes


class Drawing(Struct, frozen=True):
    """A `Figure` before it is drawn, and the function that draws it on a canvas of this height in inches."""

    name: str
    title: str
    caption: str
    height: float
    paint: Callable[[Canvas], None]


def draw(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> list[Figure]:
    """Every figure that these cells allow. Raises MissingError without matplotlib."""
    cells = [found[spec.id] for spec in specs if spec.id in found]
    if not cells:
        return _drawn([])
    return _drawn([_throughput(cells), _ramp(cells), _delays(cells), _streams(cells), _certificate(cells)])


def draw_programs(rows: Sequence[ProgramRow]) -> list[Figure]:
    """Every figure that these cells of programs allow. Raises MissingError without matplotlib."""
    all = series_of(rows)
    return _drawn([_completion(completion.drawable(all)), _parts(all)])


def draw_requests(cells: Sequence[RequestsResult]) -> list[Figure]:
    """Every figure that these cells of requests allow. Raises MissingError without matplotlib."""
    return _drawn([_concurrency(cells), *(_users(*one) for one in enumerate(requests.matrices(cells).items(), 1))])


def draw_flows(cells: Sequence[FlowsResult]) -> list[Figure]:
    """Every figure that these cells of groups of flows allow. Raises MissingError without matplotlib."""
    return _drawn([_pairs(cells), *(_flows(number, cell) for number, cell in enumerate(flows.drawable(cells), 1))])


OLDEST = (3, 8)
"""Of matplotlib; Debian 12 has an older one."""


def _drawn(drawings: Sequence[Drawing | None]) -> list[Figure]:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingError(_needed("none")) from None
    if mpl.__version_info__[:2] < OLDEST:
        raise MissingError(_needed(mpl.__version__))
    mpl.use("Agg")
    settings: Any = style.STYLE
    with mpl.rc_context(settings):
        return [_rendered(drawing) for drawing in drawings if drawing]


def _needed(installed: str) -> str:
    oldest = ".".join(map(str, OLDEST))
    return (
        f"the figures need matplotlib {oldest} or newer, {installed} is installed: {installation.library('matplotlib')}"
    )


def _rendered(drawing: Drawing) -> Figure:
    from matplotlib.figure import Figure as NewCanvas

    canvas: Canvas = NewCanvas(figsize=(style.WIDTH_INCHES, drawing.height), layout="constrained")
    drawing.paint(canvas)
    svg, png = io.StringIO(), io.BytesIO()
    # The files hold no date and no creator, so the same run gives the same bytes.
    canvas.savefig(svg, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    # The layout is computed once: a second pass would cost as much as the drawing and change nothing.
    canvas.set_layout_engine("none")
    canvas.savefig(png, format="png", dpi=150, metadata={"Software": None})
    return Figure(drawing.name, drawing.title, drawing.caption, svg.getvalue(), png.getvalue())


def _concurrency(cells: Sequence[RequestsResult]) -> Drawing | None:
    caption = (
        "Answered requests a second against connections x in flight, both axes logarithmic. The dotted lines are the "
        "ceilings: connections x in flight / (RTT + think time), and what the line carries. A red cross is a cell that "
        "is invalid: a rate above its ceiling is impossible."
    )
    if not requests.lines(cells):
        return None
    title = "Requests against concurrency"
    return Drawing("concurrency", title, caption, 5.2, lambda canvas: requests.against_concurrency(cells, canvas))


def _users(number: int, matrix_of: tuple[str, requests.Matrix]) -> Drawing:
    name, group = matrix_of
    caption = (
        f"{name}: histograms of the time of a request, by how many are in flight and by the size of the answer. The "
        "colour says how many round trips a request took. With an offered rate a request counts from when it was due."
    )
    height = 1.2 + 1.25 * min(requests.MOST_ROWS, len({places for places, _ in group}))
    title = "Users by size"
    return Drawing(f"users-{number}", title, caption, height, lambda canvas: requests.users_by_size(group, canvas))


def _flows(number: int, cell: FlowsResult) -> Drawing:
    caption = (
        f"{cell.spec.id}: throughput of each group at the receiver, below the dotted line that the lane allows; the "
        "sum of its congestion windows; and its smoothed RTT above the lane's, which is the queue that it saw. "
        "The figures of the tables are those of the shaded part."
    )
    title = cell.contest.title
    return Drawing(f"flows-{number}", title, caption, 6.4, lambda canvas: flows.over_time(cell, canvas))


def _pairs(cells: Sequence[FlowsResult]) -> Drawing | None:
    settings = flow_table.pairs(cells)
    caption = (
        "One flow each: what a flow of the row's congestion control has of its fair share beside one of the column's. "
        "1 is fair, red too little, blue too much. Of two flows with the same one the lesser share is shown; - where "
        "no valid cell exists."
    )
    if not settings:
        return None
    most = max(len(flow_table.controls(shares)) for shares in settings.values())
    height = 1.2 + (0.8 + 0.42 * most) * -(-len(settings) // style.PANELS)
    title = "Congestion controls against each other"
    return Drawing("fair-shares", title, caption, height, lambda canvas: matrix.fair_shares(settings, canvas))


def _throughput(cells: Sequence[CellResult]) -> Drawing:
    name, title = "throughput", "Throughput against RTT"
    rtts = {cell.spec.lane.rtt_ns for cell in cells}
    zero = " An RTT of 0 is drawn apart, at the left." if 0 in rtts else ""
    if len(rtts) > 1:
        caption = (
            "Steady throughput against RTT, both axes logarithmic. Marks are measurements. Dotted lines are theory for "
            "the measured windows; they bend where another limit takes over. "
            f"{_certainty(cells)}{zero}"
        )
        return Drawing(name, title, caption, 5.2, lambda canvas: throughput.against_rtt(cells, canvas))
    caption = f"Steady throughput, and the theoretical limit for the measured windows. {_certainty(cells)}"
    height = 1.4 + 0.45 * len(cells)
    return Drawing(name, "Throughput", caption, height, lambda canvas: throughput.by_column(cells, canvas))


def _completion(shown: Sequence[Series]) -> Drawing | None:
    caption = (
        "Completion time against RTT. Marks are measurements, lines are the laws where they hold, with 99 % prediction "
        "intervals: own time + round trips x RTT + bytes / rate. Hollow marks are what the cells of all other RTTs "
        "predict. The steeper a line, the more round trips the program costs."
    )
    if not shown:
        return None
    title = "Completion time against RTT"
    return Drawing("completion", title, caption, 5.2, lambda canvas: completion.against_rtt(shown, canvas))


def _parts(all: Sequence[Series]) -> Drawing | None:
    caption = (
        "What the completion time of each cell went into, of its median run: waits for whole round trips, for a window "
        "or a buffer, the line at work, and the program's own time, in which no frame was on the lane."
    )
    if not all:
        return None
    height = 1.4 + 0.3 * sum(len(one.rows) for one in all)
    return Drawing("time-parts", "Where the time went", caption, height, lambda canvas: completion.parts(all, canvas))


def _certainty(cells: Sequence[CellResult]) -> str:
    if all(len(cell.repeats) < 2 for cell in cells):
        return "Each cell was measured once, so there is no confidence interval."
    most = max((cell.half_width_share for cell in cells if math.isfinite(cell.half_width_share)), default=0.0)
    return f"Error bars are 99 % confidence intervals; the widest is \u00b1{most:.1%}."


def _ramp(cells: Sequence[CellResult]) -> Drawing | None:
    shown = ramp.drawable(cells)
    caption = (
        "From the start of a run: throughput at the receiver and the sender's congestion windows, summed over all "
        "streams. The slow start doubles each round trip and is a straight line on logarithmic axes."
    )
    if not shown:
        return None
    return Drawing("ramp", "The slow start", caption, 5.6, lambda canvas: ramp.over_time(shown, canvas))


def _delays(cells: Sequence[CellResult]) -> Drawing | None:
    shown = delays.chosen(cells)
    caption = (
        "Histograms of the round trip: idle, and beside the streams, whose queue at the bottleneck delays every "
        "packet. Probes leave at fixed times; a correction adds the probes that a late prober skipped."
    )
    if not shown:
        return None
    height = 1.0 + 2.2 * -(-len(shown) // style.PANELS)
    title = "Round trips, idle and under load"
    return Drawing("delays", title, caption, height, lambda canvas: delays.histograms(shown, canvas))


def _streams(cells: Sequence[CellResult]) -> Drawing | None:
    streams, _, panels = matrix.streams_panels(cells)
    caption = "Throughput as a percentage of the line rate for each number of streams and RTT; - where no cell exists."
    if not panels:
        return None
    height = 1.6 + 0.45 * len(streams)
    title = "Streams by RTT"
    return Drawing("streams", title, caption, height, lambda canvas: matrix.streams_by_rtt(cells, canvas))


def _certificate(cells: Sequence[CellResult]) -> Drawing:
    caption = (
        "The certificate: how many microseconds the idle round trip and each direction differ from the requested "
        "delay; - where a direction could not be measured alone."
    )
    height = 1.2 + 0.32 * len({cell.spec.lane.rtt_ns for cell in cells})
    title = "RTT asked against measured"
    return Drawing("certificate", title, caption, height, lambda canvas: matrix.certificate(cells, canvas))
