"""The figures of a run, by matplotlib: SVG for the report, PNG for everything else. Lines, no 3-D."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.cells import CellResult, CellSpec
from emulator.errors import MissingError
from emulator.latency import Latency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

MIB = 2**20
SHORTEST_MS = 0.1
"""Where an RTT of 0 is drawn on a logarithmic axis."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
"""Okabe and Ito's, told apart by the colour-blind too."""
RAMPS = 6
"""More lines than these nobody tells apart."""


@dataclass(frozen=True)
class Figure:
    """One drawing, with the sentence that stands below it."""

    name: str
    caption: str
    svg: str
    png: bytes


def draw(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> list[Figure]:
    """Every figure that these cells give. Raises MissingError without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingError("the figures need matplotlib: run scripts/install") from None
    mpl.use("Agg")
    style: Any = {"svg.hashsalt": "longhaul", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}
    cells = [found[spec.id] for spec in specs if spec.id in found]
    if not cells:
        return []
    drawings = [_throughput(cells), _ramp(cells), _delays(cells), _heat(cells), _certificate(cells)]
    with mpl.rc_context(style):
        return [_rendered(*drawing) for drawing in drawings if drawing]


Drawing = tuple[str, str, Any]
"""Name, caption, and the function that draws on axes."""


def _rendered(name: str, caption: str, paint: Any) -> Figure:
    from matplotlib.figure import Figure as NewCanvas

    canvas: Canvas = NewCanvas(figsize=(7.5, 4.4), layout="constrained")
    paint(canvas)
    svg, png = io.StringIO(), io.BytesIO()
    # No date: the same run gives the same bytes.
    canvas.savefig(svg, format="svg", metadata={"Date": None})
    canvas.savefig(png, format="png", dpi=150, metadata={"Software": None})
    # The XML prolog has no place inside an HTML page.
    return Figure(name, caption, svg.getvalue()[svg.getvalue().index("<svg") :], png.getvalue())


def _columns(cells: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    """The cells by column of the table, each by rising RTT."""
    columns: dict[str, list[CellResult]] = {}
    for cell in sorted(cells, key=lambda cell: cell.spec.lane.rtt_ns):
        columns.setdefault(cell.spec.column, []).append(cell)
    return columns


def _ms(cell: CellResult) -> float:
    return max(SHORTEST_MS, cell.spec.lane.rtt_ns / 1e6)


def _throughput(cells: Sequence[CellResult]) -> Drawing:
    def paint(canvas: Canvas) -> None:
        axes: Axes = canvas.subplots()
        for number, (column, inside) in enumerate(_columns(cells).items()):
            colour = COLOURS[number % len(COLOURS)]
            x, y = [_ms(cell) for cell in inside], [cell.steady_bytes_per_s / MIB for cell in inside]
            axes.plot(x, y, "o-", color=colour, label=column)
            widths = [cell.half_width_bytes_per_s / MIB if len(cell.repeats) > 1 else 0.0 for cell in inside]
            low, high = ([v + sign * w for v, w in zip(y, widths, strict=True)] for sign in (-1, 1))
            axes.fill_between(x, low, high, color=colour, alpha=0.2)
            axes.plot(x, [cell.predicted_bytes_per_s / MIB for cell in inside], ":", color=colour)
        axes.set(xscale="log", yscale="log", xlabel="RTT in ms", ylabel="MiB/s of payload")
        axes.legend(fontsize=8)

    caption = (
        "Steady throughput against RTT. Dots are measured, bands are the 99 % confidence interval, dotted lines theory "
        f"with the windows that were measured. An RTT of 0 stands at {SHORTEST_MS} ms."
    )
    return "throughput", caption, paint


def _ramp(cells: Sequence[CellResult]) -> Drawing | None:
    shown = sorted((c for c in cells if c.ramp), key=lambda c: -c.spec.lane.rtt_ns)[:RAMPS]
    if not shown:
        return None

    def paint(canvas: Canvas) -> None:
        top, bottom = canvas.subplots(2, 1, sharex=True)
        for number, cell in enumerate(shown):
            colour = COLOURS[number % len(COLOURS)]
            times = [i.end_s for i in cell.intervals]
            top.plot(times, [i.bytes_per_s / MIB for i in cell.intervals], color=colour, label=cell.spec.id)
            bottom.plot([m.end_s for m in cell.ramp], [m.cwnd_bytes / MIB for m in cell.ramp], color=colour)
        top.set(ylabel="MiB/s")
        top.legend(fontsize=7)
        bottom.set(xlabel="seconds from the start", ylabel="window in MiB")

    caption = "The ramp: throughput at the receiver, and the sender's congestion window (all streams together)."
    return "ramp", caption, paint


def _delays(cells: Sequence[CellResult]) -> Drawing | None:
    shown = sorted((c for c in cells if c.idle and c.loaded), key=lambda c: -c.spec.lane.rtt_ns)[:RAMPS]
    if not shown:
        return None

    def paint(canvas: Canvas) -> None:
        axes: Axes = canvas.subplots()
        for number, cell in enumerate(shown):
            colour, rtt_ns = COLOURS[number % len(COLOURS)], cell.spec.lane.rtt_ns
            for latency, line, word in ((cell.idle, ":", "idle"), (cell.loaded, "-", "loaded")):
                assert latency
                x, y = _cumulated(latency, rtt_ns)
                axes.plot(x, y, line, color=colour, label=f"{cell.spec.id}, {word}", drawstyle="steps-post")
        axes.set(xscale="symlog", xlabel="RTT above the one asked for, in ms", ylabel="share of probes", ylim=(0, 1.02))
        axes.legend(fontsize=7)

    caption = (
        "Histograms of the round trip, summed up: idle (dotted) and beside the streams. Probes leave on a fixed grid, "
        "and those that a late prober left out are put in."
    )
    return "delays", caption, paint


def _cumulated(latency: Latency, rtt_ns: int) -> tuple[list[float], list[float]]:
    total, seen = sum(count for _, count in latency.histogram), 0
    x, y = list[float](), list[float]()
    for value_ns, count in latency.histogram:
        seen += count
        x.append((value_ns - rtt_ns) / 1e6)
        y.append(seen / total)
    return x, y


def _heat(cells: Sequence[CellResult]) -> Drawing | None:
    streams = sorted({cell.spec.streams for cell in cells})
    rtts = sorted({cell.spec.lane.rtt_ns for cell in cells})
    if len(streams) < 2 or len(rtts) < 2:
        return None
    best: dict[tuple[int, int], float] = {}
    for cell in cells:
        place = (cell.spec.streams, cell.spec.lane.rtt_ns)
        best[place] = max(best.get(place, 0.0), cell.steady_bytes_per_s / cell.spec.path.line_bytes_per_s)

    def paint(canvas: Canvas) -> None:
        axes: Axes = canvas.subplots()
        values = [[best.get((n, rtt), 0.0) * 100 for rtt in rtts] for n in streams]
        image = axes.imshow(values, vmin=0, vmax=100, cmap="viridis", aspect="auto")
        axes.grid(visible=False)
        axes.set_xticks(range(len(rtts)), [f"{rtt / 1e6:g}" for rtt in rtts])
        axes.set_yticks(range(len(streams)), [str(n) for n in streams])
        axes.set(xlabel="RTT in ms", ylabel="streams")
        for row, line in enumerate(values):
            for place, value in enumerate(line):
                axes.text(place, row, f"{value:.0f}", ha="center", va="center", color="w" if value < 60 else "k")
        canvas.colorbar(image, label="% of the line")

    return "streams", "Streams by RTT: the share of the line that the best profile reaches.", paint


def _certificate(cells: Sequence[CellResult]) -> Drawing:
    rows = sorted({(c.spec.lane.rtt_ns, c.rtt_ns) for c in cells})

    def paint(canvas: Canvas) -> None:
        axes: Axes = canvas.subplots()
        axes.bar(range(len(rows)), [(measured - asked) / 1000 for asked, measured in rows], color=COLOURS[0])
        axes.set_xticks(range(len(rows)), [f"{asked / 1e6:g}" for asked, _ in rows])
        axes.set(xlabel="RTT asked for, in ms", ylabel="measured - asked, in us")

    return "certificate", "The certificate: by how much the idle RTT differs from the one asked for.", paint
