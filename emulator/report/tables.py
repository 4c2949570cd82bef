"""Results as tables: rows of RTT, columns of profile, streams and congestion control. Pure text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from emulator import units
from emulator.experiment import grid
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.model.sweep_axes import INBOUND, OUTBOUND
from emulator.report import remarks
from emulator.units import both_rates

THROUGHPUT = "MiB/s (Gbit/s)"
"""What `units.both_rates` writes."""
DETAILS = (
    "RTT", "measured", "steady", "±", "first 10 s", "predicted", "loaded", "limit", "buffer", "limited by",
)  # fmt: skip
WAYS = (OUTBOUND, INBOUND)
TITLE = "Throughput against RTT"
ADVICE = "settings that would raise a cell's throughput:"
advice = remarks.advice
INVALID_MARK = "✗"
UNSETTLED_MARK = "~"
LEGEND = (
    f"{THROUGHPUT} of payload at the receiver, ± at 99 % confidence; measured: the RTT of the idle lane; loaded: its "
    "99th percentile while the streams run; "
    "limit, buffer: packets dropped by the emulator's limit and by the bottleneck's buffer. "
    f"{INVALID_MARK}: invalid, reasons below. {UNSETTLED_MARK}: the rate was still drifting when the run ended."
)


class Table(Struct, frozen=True):
    """A title, a header and rows of text; `below` are sentences about them.

    Columns stand right, as numbers do, unless named in `left`.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[str, ...] = ()
    below: tuple[str, ...] = ()


def steady_text(result: CellResult) -> str:
    """The steady mean with its marks."""
    mark = INVALID_MARK if result.judgement.invalid else "" if result.throughput.settled else UNSETTLED_MARK
    return mark + both_rates(result.steady_bytes_per_s)


def label(spec: CellSpec, several_names: bool) -> str:
    """A row's label: the RTT, preceded by the lane's name where lanes of a topology are compared."""
    rtt = units.format_duration(spec.lane.rtt_ns)
    return f"{spec.lane.name} {rtt}" if several_names else rtt


def overview(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> Table:
    """Steady throughput: one row for each RTT, one column for each other combination. A missing cell is "-".

    Where the combinations are twice as many as the RTTs, or more, they are the rows.
    """
    columns = list(dict.fromkeys(spec.column for spec in specs))
    rows: dict[str, dict[str, str]] = {}
    for spec in specs:
        text = steady_text(found[spec.id]) if spec.id in found else "-"
        rows.setdefault(label(spec, several_lanes(specs)), {})[spec.column] = text
    title = f"steady {THROUGHPUT}"
    body = tuple((row, *(cells.get(column, "-") for column in columns)) for row, cells in rows.items())
    if len(columns) >= 2 * len(body):
        first, *others = zip(("profile", *columns), *body, strict=True)
        return Table(title, first, tuple(others), ("profile",))
    return Table(title, ("RTT", *columns), body)


def several_lanes(specs: Sequence[CellSpec]) -> bool:
    """Whether the rows are named lanes rather than one lane at several RTTs."""
    return len({spec.lane.name for spec in specs}) > 1


def details(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> list[Table]:
    """One table for each column with every figure of its cells and their limiter. Columns of one cell share one
    table."""
    both = any(result.ways for result in found.values())
    header = (*DETAILS[:-1], *(WAYS if both else ()), DETAILS[-1])
    columns: dict[str, list[tuple[str, ...]]] = {spec.column: [] for spec in specs}
    for spec in specs:
        if spec.id in found:
            columns[spec.column].append(_details_row(found[spec.id], several_lanes(specs), both=both))
    if len(columns) > 1 and all(len(rows) < 2 for rows in columns.values()):
        together = tuple((column, *row) for column, rows in columns.items() for row in rows)
        return [Table("details", ("profile", *header), together, ("profile", "limited by"))]
    return [Table(column, header, tuple(rows), ("limited by",)) for column, rows in columns.items()]


def _details_row(result: CellResult, named: bool, *, both: bool) -> tuple[str, ...]:
    return (
        label(result.spec, named),
        f"{result.delays.rtt_ns / 1e6:.3f} ms",
        steady_text(result),
        remarks.uncertainty(result),
        both_rates(result.throughput.first_10s_bytes_per_s),
        both_rates(result.judgement.predicted_bytes_per_s),
        f"{result.delays.loaded.p99_ns / 1e6:.3f} ms" if result.delays.loaded else "-",
        "unknown" if result.queues.drops_limit is None else str(result.queues.drops_limit),
        str(result.queues.drops_buffer),
        *(_of_way(result, way, both_rates, "-") for way in WAYS if both),
        result.judgement.limiter,
    )


def figure_text(result: CellResult) -> str:
    """The figure by which two runs are compared."""
    return f"{steady_text(result)} ± {remarks.uncertainty(result)}"


PLAN = ("cell", "RTT", "runs for", "steady", "whole run", "limited by")


def planned(specs: Sequence[CellSpec]) -> Table:
    """The prediction for cells that were not measured yet."""
    rows = []
    for spec in specs:
        said = spec.prediction
        rtt = units.format_duration(spec.lane.rtt_ns)
        throughputs = (both_rates(said.bytes_per_s), both_rates(said.mean_bytes_per_s))
        rows.append((spec.id, rtt, f"{spec.duration_s} s", *throughputs, said.run_limit))
    return Table(f"planned: {THROUGHPUT}", PLAN, tuple(rows), ("cell", "limited by"))


def plan_legend(specs: Sequence[CellSpec], repeats: int) -> str:
    """What stands below the plan."""
    lasts = units.format_duration(grid.virtual_s(specs, repeats) * 10**9)
    return f"{THROUGHPUT}; streams run for {lasts} at least."


def plan_json(specs: Sequence[CellSpec], repeats: int) -> dict[str, Any]:
    """The plan as JSON."""
    cells = [
        {
            "id": spec.id,
            "duration_s": spec.duration_s,
            "predicted_bytes_per_s": spec.prediction.bytes_per_s,
            "predicted_mean_bytes_per_s": spec.prediction.mean_bytes_per_s,
            "predicted_limit": spec.prediction.run_limit,
        }
        for spec in specs
    ]
    return {"cells": cells, "least_repeats": repeats, "streams_s": grid.virtual_s(specs, repeats)}


CSV_COLUMNS = (
    "cell", "lane", "rtt_asked_ns", "rtt_measured_ns", "rate_bps", "profile", "streams", "congestion_control",
    "duration_s", "direction", "mtu", "loss", "initcwnd", "repeats", "steady_bytes_per_s", "half_width_bytes_per_s",
    "steady_gbit_per_s", "mean_bytes_per_s", "first_10s_bytes_per_s", "predicted_bytes_per_s",
    "predicted_mean_bytes_per_s", "predicted_limit", "kind", "limiter", "evidence", "advice", "window_bytes",
    "peer_window_bytes", "idle_p50_ns", "idle_p99_ns", "loaded_p50_ns", "loaded_p99_ns", "there_ns", "back_ns",
    "retransmits", "drops_limit", "drops_buffer", "drops_loss", "outbound_bytes_per_s",
    "inbound_bytes_per_s", "settled", "kernel", "invalid",
)  # fmt: skip


def _of_way(result: CellResult, direction: str, show: Callable[[float], str], nothing: str) -> str:
    """The steady mean in one direction; `nothing` where no data was sent in it."""
    if result.spec.direction == direction:
        return show(result.steady_bytes_per_s)
    return next((show(way.throughput.steady_bytes_per_s) for way in result.ways if way.direction == direction), nothing)


def csv_text(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> str:
    """CSV for a spreadsheet: one line for each cell, in integers or full precision."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for result in (found[spec.id] for spec in specs if spec.id in found):
        spec, path = result.spec, result.spec.path
        idle, loaded = result.delays.idle, result.delays.loaded
        own = {
            "cell": spec.id,
            "lane": spec.lane.name,
            "rtt_asked_ns": spec.lane.rtt_ns,
            "rtt_measured_ns": result.delays.rtt_ns,
            "rate_bps": path.rate_bps,
            "profile": spec.profile.name,
            "streams": spec.streams,
            "congestion_control": path.congestion_control,
            "duration_s": spec.duration_s,
            "direction": spec.direction,
            "mtu": path.mtu,
            "loss": path.loss,
            "initcwnd": spec.profile.initcwnd,
            "repeats": len(result.repeats),
            "half_width_bytes_per_s": result.half_width if len(result.repeats) > 1 else "",
            "idle_p50_ns": idle.p50_ns if idle else "",
            "idle_p99_ns": idle.p99_ns if idle else "",
            "loaded_p50_ns": loaded.p50_ns if loaded else "",
            "loaded_p99_ns": loaded.p99_ns if loaded else "",
            "there_ns": idle.there_ns if idle else "",
            "back_ns": idle.back_ns if idle else "",
            **{f"{way}_bytes_per_s": _of_way(result, way, str, "") for way in WAYS},
            "steady_gbit_per_s": round(result.steady_bytes_per_s * 8 / 1e9, 6),
            "window_bytes": result.sockets.in_flight_bytes if result.sockets else "",
            "kernel": spec.kernel or result.machine.kernel,
            "invalid": "; ".join(result.judgement.invalid),
        }
        groups = (result.throughput, result.transfer, result.sockets, result.queues, result.judgement)
        writer.writerow({name: value for group in groups if group for name, value in asdict(group).items()} | own)
    return out.getvalue()
