"""Three matrices: the share of the line rate by streams and RTT, the certificate of every RTT, and the fair shares of
congestion controls against each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from emulator.experiment.cell_result import CellResult
from emulator.report import flow_table
from emulator.report.figures import style
from emulator.report.flow_table import Pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

LEAST_US = 10.0
"""The least range of the certificate's scale: the RTT error to expect in the lab."""

Panel = tuple[str, list[list[float]]]


def streams_panels(cells: Sequence[CellResult]) -> tuple[list[int], list[int], list[Panel]]:
    """Streams, RTTs in ns, and for each profile the percentage of the line rate; NaN where no cell exists.

    Returns no panel unless both the number of streams and the RTT vary.
    """
    streams = sorted({cell.spec.streams for cell in cells})
    rtts = sorted({cell.spec.lane.rtt_ns for cell in cells})
    if len(streams) < 2 or len(rtts) < 2:
        return streams, rtts, []
    groups: dict[str, dict[tuple[int, int], float]] = {}
    for cell in cells:
        shares = groups.setdefault(_without_streams(cell), {})
        place = (cell.spec.streams, cell.spec.lane.rtt_ns)
        shares[place] = max(shares.get(place, 0.0), 100 * cell.steady_bytes_per_s / cell.spec.path.line_bytes_per_s)
    named = style.spread(list(groups.items()), style.PANELS)
    return streams, rtts, [(n, [[found.get((s, r), math.nan) for r in rtts] for s in streams]) for n, found in named]


def _without_streams(cell: CellResult) -> str:
    return ", ".join(part for part in cell.spec.column.split(", ") if "stream" not in part)


def streams_by_rtt(cells: Sequence[CellResult], canvas: Canvas) -> None:
    """Draw a heat map for each profile."""
    streams, rtts, panels = streams_panels(cells)
    charts: Any = canvas.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (name, values) in zip(charts, panels, strict=True):
        mesh = _mesh(axes, values, vmin=0, vmax=100, cmap="viridis")
        _figures(axes, values, lambda value: f"{value:.0f}", lambda value: value < 60)
        axes.set_xticks([place + 0.5 for place in range(len(rtts))], [f"{rtt / 1e6:g}" for rtt in rtts])
        axes.set_yticks([place + 0.5 for place in range(len(streams))], [str(number) for number in streams])
        axes.set(xlabel="RTT in ms", title=name)
    charts[0].set_ylabel("streams")
    canvas.colorbar(mesh, ax=list(charts), label="% of the line", pad=0.02)


def certificate(cells: Sequence[CellResult], canvas: Canvas) -> None:
    """The error of the idle RTT and of each direction in microseconds, one row for each RTT; NaN where not measured."""
    rows = {cell.spec.lane.rtt_ns: cell for cell in sorted(cells, key=lambda cell: cell.spec.lane.rtt_ns)}
    values = [_differences_us(cell) for cell in rows.values()]
    axes: Axes = canvas.subplots()
    most = max([LEAST_US, *(abs(value) for row in values for value in row if not math.isnan(value))])
    mesh = _mesh(axes, values, vmin=-most, vmax=most, cmap="RdBu_r")
    _figures(axes, values, lambda value: f"{value:+.1f}", lambda value: abs(value) > 0.7 * most)
    axes.set_xticks([0.5, 1.5, 2.5], ["round trip", "outbound", "inbound"])
    axes.set_yticks([place + 0.5 for place in range(len(rows))], [style.rtt_text(cell) for cell in rows.values()])
    axes.invert_yaxis()
    axes.set_ylabel("asked for")
    canvas.colorbar(mesh, ax=axes, label="measured - asked, us", pad=0.02)


def fair_shares(settings: Mapping[str, Pairs], canvas: Canvas) -> None:
    """Draw a heat map for each setting: what a flow of each row's congestion control has of its fair share."""
    names, shared = style.names_of(settings)
    rows = -(-len(settings) // style.PANELS)
    charts: Any = canvas.subplots(rows, min(len(settings), style.PANELS), squeeze=False).ravel().tolist()
    for axes in charts[len(settings) :]:
        axes.remove()
    for axes, (setting, shares) in zip(charts, settings.items(), strict=False):
        controls = flow_table.controls(shares)
        values = [[_valid(shares.get((one, other))) for other in controls] for one in controls]
        mesh = _mesh(axes, values, vmin=0, vmax=2, cmap="RdBu")
        _figures(axes, values, lambda value: f"{value:.2f}", lambda value: abs(value - 1) > 0.7)
        places = [place + 0.5 for place in range(len(controls))]
        axes.set_xticks(places, controls)
        axes.set_yticks(places, controls)
        axes.invert_yaxis()
        axes.set(xlabel="against", title=names[setting])
    canvas.colorbar(mesh, ax=charts[: len(settings)], label="of the fair share", pad=0.02)
    if shared:
        canvas.suptitle(shared, fontsize=style.STYLE["font.size"])


def _valid(share: tuple[float, bool] | None) -> float:
    return share[0] if share and share[1] else math.nan


def _differences_us(cell: CellResult) -> list[float]:
    lane, (there, back) = cell.spec.lane, cell.ways_ns
    return [
        (cell.delays.rtt_ns - lane.rtt_ns) / 1000,
        math.nan if there is None else (there - lane.outbound.delay_ns) / 1000,
        math.nan if back is None else (back - lane.inbound.delay_ns) / 1000,
    ]


def _mesh(axes: Axes, values: Sequence[Sequence[float]], **how: Any) -> Any:
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return axes.pcolormesh(values, edgecolors=style.PAPER, linewidth=2, **how)


def _figures(axes: Axes, values: Sequence[Sequence[float]], text: Any, on_dark: Any) -> None:
    for row, line in enumerate(values):
        for place, value in enumerate(line):
            if math.isnan(value):
                axes.text(place + 0.5, row + 0.5, "-", ha="center", va="center")
                continue
            colour = style.ON_DARK if on_dark(value) else style.ON_LIGHT
            axes.text(place + 0.5, row + 0.5, text(value), ha="center", va="center", color=colour)
