"""Completion time of programs against RTT, with their laws; and where the time of each cell went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emulator import units
from emulator.analysis import program_law, program_time
from emulator.analysis.program_law import ProgramLaw
from emulator.analysis.tcp_path import NS
from emulator.report.figures import style
from emulator.report.program_table import ProgramRow, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

HOLLOW: dict[str, Any] = {"fillstyle": "none", "markersize": 9, "linestyle": "", "clip_on": False}
STEPS = 40
"""Points of a drawn law: its prediction interval is a curve."""
WIDEST_BAND = 0.5
"""A prediction interval of more than this share of the time is not drawn: it would hide the measurements."""
KIND_LOOKS = {
    program_time.ROUND_TRIPS: (style.COLOURS[0], 1.0),
    program_time.HANDSHAKES: (style.COLOURS[0], 0.5),
    program_time.RECEIVE_WINDOW: (style.COLOURS[1], 1.0),
    program_time.SEND_BUFFER: (style.COLOURS[1], 0.5),
    program_time.SLOW_START: (style.COLOURS[4], 1.0),
    program_time.LOSS: (style.BAD, 1.0),
    program_time.LISTEN_QUEUE: (style.BAD, 0.5),
    program_time.LINE: (style.COLOURS[2], 1.0),
    program_time.PROGRAM: (style.COLOURS[5], 0.6),
    program_time.UNKNOWN: (style.COLOURS[5], 0.25),
}
"""Colour and opacity of each kind: waits of round trips are blue, windows orange, the line green."""


def drawable(all: Sequence[Series]) -> list[Series]:
    """The series with several RTTs, at most as many as a reader can tell apart."""
    return style.spread([one for one in all if len({row.rtt_ns for row in one.rows}) > 1], style.LINES)


def against_rtt(all: Sequence[Series], canvas: Canvas) -> None:
    """Draw the measured times of each series and rate as marks, its law as a line, on linear axes.

    A hollow mark is what the law of all other RTTs predicts.
    """
    from matplotlib.lines import Line2D

    axes: Axes = canvas.subplots()
    names, shared = style.names_of([one.name for one in all])
    handles: list[Any] = []
    for number, (series, rate_bps) in enumerate((one, rate) for one in all for rate in rates_of(one)):
        rate = f", {units.format_rate(rate_bps)}" if series.several_rates else ""
        handles.append(_series(axes, series, rate_bps, style.style_of(number), f"{names[series.name]}{rate}"))
    handles += [
        Line2D([], [], color=style.INK, linewidth=1.0, label="law"),
        Line2D([], [], color=style.INK, marker="o", label="predicted from other RTTs", **HOLLOW),
    ]
    axes.set(xlabel="RTT in ms", ylabel="completion time in s")
    axes.set_xlim(left=0 if any(row.rtt_ns == 0 for one in all for row in one.rows) else None)
    axes.set_ylim(bottom=0)
    style.legend_below(canvas, handles, shared)


def rates_of(series: Series) -> list[int]:
    """The different rates, rising."""
    return sorted({row.rate_bps for row in series.rows})


def _series(axes: Axes, series: Series, rate_bps: int, look: dict[str, Any], name: str) -> Any:
    rows = [row for row in series.rows if row.rate_bps == rate_bps]
    x, y = [row.rtt_ns / 1e6 for row in rows], [row.mean_s for row in rows]
    (marks,) = axes.plot(x, y, linestyle="", zorder=3, label=name, clip_on=False, **look)
    for row in rows:
        if row.judgement.invalid:
            axes.plot(row.rtt_ns / 1e6, row.mean_s, "x", color=style.BAD, markersize=10, zorder=4)
    if isinstance(series.law, ProgramLaw):
        _law(axes, series.law, rows, look["color"])
        for left in program_law.leave_one_out(series.law.points):
            if left.point.rate_bps == rate_bps:
                at = left.point.rtt_ns / 1e6
                axes.plot(at, left.forecast.completion_s, **look, **HOLLOW)
    return marks


def _law(axes: Axes, law: ProgramLaw, rows: Sequence[ProgramRow], colour: str) -> None:
    """Draw the law at the rate of these rows over the RTTs where it holds; the bytes are interpolated between cells."""
    known = [point for point in law.points if point.rate_bps == rows[0].rate_bps]
    if not known:
        return
    low, high = law.rtts_ns[0], law.rtts_ns[-1]
    rtts = [low + (high - low) * step // STEPS for step in range(STEPS + 1)]
    nearest = [min(known, key=lambda point: abs(point.rtt_ns - rtt)) for rtt in rtts]
    said = [law.predict(rtt, at.rate_bps, at.bytes, at.mtu) for rtt, at in zip(rtts, nearest, strict=True)]
    x, y = [rtt / 1e6 for rtt in rtts], [one.completion_s for one in said]
    axes.plot(x, y, color=colour, linewidth=1.0)
    if max(one.half_s for one in said) <= WIDEST_BAND * max(y):
        lower, upper = ([one.completion_s + sign * one.half_s for one in said] for sign in (-1, 1))
        axes.fill_between(x, lower, upper, color=colour, alpha=0.15, linewidth=0)


def parts(all: Sequence[Series], canvas: Canvas) -> None:
    """Draw one bar for each cell: the shares of its median run's completion time by what they went into."""
    rows = [(one, row) for one in all for row in one.rows]
    axes: Axes = canvas.subplots()
    names, _ = style.names_of([one.name for one in all])
    left = [0.0] * len(rows)
    handles: list[Any] = []
    for kind, (colour, alpha) in KIND_LOOKS.items():
        widths = [_percent(row, kind) for _, row in rows]
        if any(widths):
            look: dict[str, Any] = {"color": colour, "alpha": alpha, "label": kind}
            handles.append(axes.barh(range(len(rows)), widths, left=left, height=0.7, **look))
            left = [begin + width for begin, width in zip(left, widths, strict=True)]
    labels = [f"{names[one.name]} {one.label(row)}" if len(all) > 1 else one.label(row) for one, row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="% of the completion time", xlim=(0, 100))
    for place, (_, row) in enumerate(rows):
        text = program_law.seconds_text(row.program.median.completion_ns / NS)
        axes.text(1.01, place, text, transform=axes.get_yaxis_transform(), va="center")
    style.legend_below(canvas, handles)


def _percent(row: ProgramRow, kind: str) -> float:
    total = max(1, row.program.median.completion_ns)
    return sum(100 * part.time_ns / total for part in row.judgement.shares if part.kind == kind)
