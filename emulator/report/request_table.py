"""Results of requests as tables: rows of RTT and users, columns of sizes. Pure text; the same functions as `tables`."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from emulator import units
from emulator.analysis import request_figures
from emulator.experiment import grid
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.requests_result import RequestsResult, load_of, paths_of
from emulator.report import remarks
from emulator.report.figures.style import names_of
from emulator.report.tables import INVALID_MARK, Table, label, several_lanes

TITLE = "Requests over the lane"
ADVICE = "what would help a cell:"
advice = remarks.advice
LEGEND = (
    "answered: requests a second, ± at 99 % confidence; of ceiling: as a share of connections x in flight / "
    "(RTT + think time); p50 to p99.9: the time of a request until the last byte of its answer, with an offered rate "
    "from when it was due; set-up: of a connection; transfer: from the first byte of an answer to its last; own: what "
    "sending and receiving takes the program itself, without any network, of each time. In the lab computing takes no "
    f"time: these are the costs of the network alone. {INVALID_MARK}: invalid, reasons below."
)
DETAILS = (
    "RTT", "answered", "±", "of ceiling", "p50", "p90", "p99", "p99.9", "longest", "set-up", "transfer", "own",
    "again", "limited by",
)  # fmt: skip


def rate_text(per_s: float) -> str:
    """Requests a second, to four digits: "12.5/s", "9341/s"."""
    return f"{per_s:.0f}/s" if per_s >= 1000 else f"{per_s:.4g}/s"


def time_text(ns: int) -> str:
    """A time, in ms or s."""
    return f"{ns / 1e6:.3f} ms" if ns < 10**9 else f"{ns / 1e9:.3f} s"


def overview(specs: Sequence[CellSpec], found: Mapping[str, RequestsResult]) -> Table:
    """Requests a second and their median time: one row for each RTT, one column for each other combination."""
    columns, names, shared = _columns(specs)
    rows: dict[str, dict[str, str]] = {}
    for spec in specs:
        text = _short(found[spec.id]) if spec.id in found else "-"
        rows.setdefault(label(spec, several_lanes(specs)), {})[spec.column] = text
    title = ": ".join(part for part in ("requests a second, and their median time", shared) if part)
    body = tuple((row, *(cells.get(column, "-") for column in columns)) for row, cells in rows.items())
    if len(columns) <= len(body):
        return Table(title, ("RTT", *(names[column] for column in columns)), body)
    # Users and sizes make many columns: they stand better as rows.
    turned = tuple((names[column], *(row[n + 1] for row in body)) for n, column in enumerate(columns))
    return Table(title, ("requests", *(row[0] for row in body)), turned, ("requests",))


def details(specs: Sequence[CellSpec], found: Mapping[str, RequestsResult]) -> list[Table]:
    """One table for each RTT of a lane, with every figure of its cells, or one for each column if those are fewer."""
    named, (columns, names, shared) = several_lanes(specs), _columns(specs)
    by_column = len(columns) <= len({label(spec, named) for spec in specs})
    groups: dict[str, list[tuple[str, ...]]] = {}
    for spec in specs:
        title, first = (spec.column, label(spec, named)) if by_column else (label(spec, named), names[spec.column])
        if spec.id in found:
            groups.setdefault(title, []).append((first, *row(found[spec.id])))
    head = "RTT" if by_column else "requests"
    return [
        Table(
            title if by_column else ", ".join(part for part in (f"RTT {title}", shared) if part),
            (head, *DETAILS[1:]),
            tuple(rows),
            (head, "limited by"),
        )
        for title, rows in groups.items()
    ]


def _columns(specs: Sequence[CellSpec]) -> tuple[list[str], dict[str, str], str]:
    """The columns, what distinguishes each, and what all share."""
    columns = list(dict.fromkeys(spec.column for spec in specs))
    return columns, *names_of(columns)


def _rate(result: RequestsResult) -> str:
    mark = INVALID_MARK if result.judgement.invalid else ""
    return mark + rate_text(result.figure)


def _short(result: RequestsResult) -> str:
    return f"{_rate(result)}, {time_text(result.requests.times.p50_ns)}"


def row(result: RequestsResult) -> tuple[str, ...]:
    """The texts of a cell below DETAILS, without the first."""
    seen, ceiling = result.requests, result.judgement.round_trips_per_s
    return (
        _rate(result),
        remarks.uncertainty(result),
        "-" if ceiling is None else f"{result.figure / ceiling:.1%}",
        *(time_text(ns) for ns in (seen.times.p50_ns, seen.times.p90_ns, seen.times.p99_ns, seen.times.p99_9_ns)),
        time_text(seen.times.max_ns),
        time_text(seen.setup.p50_ns),
        time_text(seen.transfer.p50_ns),
        f"{seen.overhead_ns / 1000:.0f} us",
        str(seen.retransmits),
        result.judgement.limiter,
    )


def figure_text(result: RequestsResult) -> str:
    """The figure by which two runs are compared."""
    return f"{_rate(result)} ± {remarks.uncertainty(result)}"


PLAN = ("cell", "RTT", "runs for", "round trips allow", "the line allows")


def planned(specs: Sequence[CellSpec]) -> Table:
    """The cells that would be measured, with the ceilings of their round trips and of the line."""
    rows = []
    for spec in specs:
        load, paths = load_of(spec), paths_of(spec)
        round_trips = request_figures.round_trip_ceiling(load, paths.rtt_ns)
        ceilings = ("-" if math.isinf(round_trips) else rate_text(round_trips),
                    rate_text(request_figures.line_ceiling(load, paths)))  # fmt: skip
        rows.append((spec.id, units.format_duration(spec.lane.rtt_ns), f"{spec.duration_s} s", *ceilings))
    return Table("planned", PLAN, tuple(rows), ("cell",))


def plan_legend(specs: Sequence[CellSpec], repeats: int) -> str:
    """What stands below the plan."""
    lasts = units.format_duration(grid.virtual_s(specs, repeats) * 10**9)
    return f"requests are sent for {lasts}, or until their count is reached."


def plan_json(specs: Sequence[CellSpec], repeats: int) -> dict[str, Any]:
    """The plan as JSON."""
    cells = []
    for spec in specs:
        load, paths = load_of(spec), paths_of(spec)
        round_trips = request_figures.round_trip_ceiling(load, paths.rtt_ns)
        cells.append({
            "id": spec.id, "duration_s": spec.duration_s, "count": load.count,
            "round_trips_per_s": None if math.isinf(round_trips) else round_trips,
            "line_per_s": request_figures.line_ceiling(load, paths),
        })  # fmt: skip
    return {"cells": cells, "least_repeats": repeats}


CSV_COLUMNS = (
    "cell", "lane", "rtt_asked_ns", "rtt_measured_ns", "rate_bps", "profile", "congestion_control", "duration_s",
    "direction", "mtu", "loss", "connections", "in_flight", "request_bytes", "answer_bytes", "think_ns",
    "offered_per_s", "repeats", "requests_per_s", "half_width_per_s", "round_trips_per_s", "line_per_s", "answered",
    "unanswered", "held", "mean_ns", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "max_ns", "service_p50_ns",
    "transfer_p50_ns", "transfer_p99_ns", "setup_p50_ns", "setup_max_ns", "overhead_ns", "retransmits", "drops_limit",
    "drops_buffer", "drops_loss", "kind", "limiter", "evidence", "advice", "kernel", "invalid",
)  # fmt: skip


def csv_text(specs: Sequence[CellSpec], found: Mapping[str, RequestsResult]) -> str:
    """CSV for a spreadsheet: one line for each cell, in integers or full precision."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for result in (found[spec.id] for spec in specs if spec.id in found):
        spec, seen = result.spec, result.requests
        own = {
            "cell": spec.id,
            "lane": spec.lane.name,
            "rtt_asked_ns": spec.lane.rtt_ns,
            "rtt_measured_ns": result.delays.rtt_ns,
            "rate_bps": spec.path.rate_bps,
            "profile": spec.profile.name,
            "congestion_control": spec.path.congestion_control,
            "duration_s": spec.duration_s,
            "direction": spec.direction,
            "mtu": spec.path.mtu,
            "loss": spec.path.loss,
            "repeats": len(result.repeats),
            "requests_per_s": result.figure,
            "half_width_per_s": result.half_width if len(result.repeats) > 1 else "",
            "service_p50_ns": seen.service.p50_ns,
            "transfer_p50_ns": seen.transfer.p50_ns,
            "transfer_p99_ns": seen.transfer.p99_ns,
            "setup_p50_ns": seen.setup.p50_ns,
            "setup_max_ns": seen.setup.max_ns,
            "retransmits": seen.retransmits,
            "kernel": spec.kernel or result.machine.kernel,
            "invalid": "; ".join(result.judgement.invalid),
        }
        groups = (result.load, seen, seen.times, result.queues, result.judgement)
        writer.writerow({name: value for group in groups for name, value in asdict(group).items()} | own)
    return out.getvalue()
