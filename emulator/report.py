"""Results as tables: rows of RTT, columns of profile, streams and congestion control. Pure text; MiB/s like iperf."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from emulator import units
from emulator.results import CellResult, CellSpec

MIB = 2**20
DETAILS = (
    "RTT asked", "RTT measured", "steady", "whole run", "predicted", "by limit", "by buffer", "limited by",
)  # fmt: skip
INVALID_MARK = "✗"
UNSETTLED_MARK = "~"
LEGEND = (
    "MiB/s of payload at the receiver; packets dropped by the emulator's limit and by the bottleneck's buffer. "
    f"{INVALID_MARK}: invalid, reasons below. {UNSETTLED_MARK}: the rate still drifted when the run ended."
)


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of text, all but the last column of which are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def mib(bytes_per_s: float) -> str:
    """A throughput in MiB/s to four digits or one decimal: "1140", "43.5"."""
    value = bytes_per_s / MIB
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def steady_text(result: CellResult) -> str:
    """The steady mean with its marks."""
    mark = INVALID_MARK if result.invalid else "" if result.settled else UNSETTLED_MARK
    return mark + mib(result.steady_bytes_per_s)


def label(spec: CellSpec, several_names: bool) -> str:
    """What a row is called: the RTT, after the lane's name where lanes of a topology are compared."""
    rtt = units.format_duration(spec.lane.rtt_ns)
    return f"{spec.lane.name} {rtt}" if several_names else rtt


def overview(specs: Sequence[CellSpec], found: dict[str, CellResult]) -> Table:
    """Steady throughput: one row an RTT, one column each of the others. A cell that is not there is "-"."""
    columns = list(dict.fromkeys(spec.column for spec in specs))
    rows: dict[str, dict[str, str]] = {}
    for spec in specs:
        text = steady_text(found[spec.id]) if spec.id in found else "-"
        rows.setdefault(label(spec, _named(specs)), {})[spec.column] = text
    body = tuple((row, *(cells.get(column, "-") for column in columns)) for row, cells in rows.items())
    return Table("steady MiB/s", ("RTT", *columns), body)


def _named(specs: Sequence[CellSpec]) -> bool:
    """Whether the rows are lanes with names worth showing, and not one lane at several RTTs."""
    return len({spec.lane.name.split("-")[0] for spec in specs}) > 1


def details(specs: Sequence[CellSpec], found: dict[str, CellResult]) -> list[Table]:
    """One table a column: every figure of each cell, and what limited it."""
    tables = []
    for column in dict.fromkeys(spec.column for spec in specs):
        inside = [spec for spec in specs if spec.column == column and spec.id in found]
        rows = tuple(_details_row(found[spec.id], _named(specs)) for spec in inside)
        tables.append(Table(column, DETAILS, rows))
    return tables


def _details_row(result: CellResult, named: bool) -> tuple[str, ...]:
    return (
        label(result.spec, named),
        f"{result.rtt_ns / 1e6:.3f} ms",
        steady_text(result),
        mib(result.mean_bytes_per_s),
        mib(result.predicted_bytes_per_s),
        "unknown" if result.drops_limit is None else str(result.drops_limit),
        str(result.drops_buffer),
        result.limiter,
    )


def objections(specs: Sequence[CellSpec], found: dict[str, CellResult], failures: dict[str, str]) -> list[str]:
    """Everything that must not be overlooked: invalid cells with reasons, failed cells, notes on profiles."""
    said = [f"{id} invalid: {reason}" for id, result in found.items() for reason in result.invalid]
    said += [f"{spec.id} failed: {failures[spec.id]}" for spec in specs if spec.id in failures]
    notes = dict.fromkeys(f"note: {note}" for result in found.values() for note in result.notes)
    return [*said, *notes]


def markdown(title: str, tables: Sequence[Table], said: Sequence[str]) -> str:
    """All tables as one Markdown document."""
    parts = [f"# {title}", LEGEND]
    for table in tables:
        parts.append(f"## {table.title}")
        lines = [table.header, ("---:",) * (len(table.header) - 1) + (":---",), *table.rows]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    if said:
        parts.append("\n".join(f"- {one}" for one in said))
    return "\n\n".join(parts) + "\n"


CSV_COLUMNS = (
    "lane", "rtt_asked_ns", "rtt_measured_ns", "rate_bps", "profile", "streams", "congestion_control", "duration_s",
    "steady_bytes_per_s", "steady_gbit_per_s", "mean_bytes_per_s", "first_10s_bytes_per_s", "predicted_bytes_per_s",
    "predicted_limit", "limiter", "evidence", "window_bytes", "peer_window_bytes", "retransmits", "drops_limit",
    "drops_buffer", "drops_loss", "settled", "invalid",
)  # fmt: skip


def csv_text(results: Sequence[CellResult]) -> str:
    """One line a cell, integers and full precision, for a spreadsheet."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for result in results:
        spec, path = result.spec, result.spec.path
        own = {
            "lane": spec.lane.name,
            "rtt_asked_ns": spec.lane.rtt_ns,
            "rtt_measured_ns": result.rtt_ns,
            "rate_bps": path.rate_bps,
            "profile": spec.profile.name,
            "streams": spec.streams,
            "congestion_control": path.congestion_control,
            "duration_s": spec.duration_s,
            "steady_gbit_per_s": round(result.steady_bytes_per_s * 8 / 1e9, 6),
            "invalid": "; ".join(result.invalid),
        }
        writer.writerow({name: getattr(result, name, "") for name in CSV_COLUMNS} | own)
    return out.getvalue()
