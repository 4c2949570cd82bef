"""What programs cost, by rows: a table for each program and TCP profile, its law below it, and CSV. Pure text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from emulator import units
from emulator.analysis import program_law, program_time
from emulator.analysis.program_law import LawPoint, NoLaw, ProgramLaw, seconds_text
from emulator.analysis.program_runs import ProgramJudgement, ProgramRuns
from emulator.analysis.statistics import half_width
from emulator.analysis.tcp_path import NS
from emulator.report.tables import INVALID_MARK, Table

HEADER = (
    "RTT", "rate", "time", "round trips", "FCT efficiency", "connections", "sent", "received", "sent again",
    "first byte", "quiet", "limited by",
)  # fmt: skip


class ProgramRow(Struct, frozen=True):
    """One cell: its `series` (program, TCP profile and all else but RTT and rate), its runs and their judgement.

    `repeats` are the mean completion times (s) of all measurements of the cell. `lane` is the lane's name where rows of
    several lanes are compared, `settings` what CSV has besides (`SETTINGS`).
    """

    series: str
    rtt_ns: int
    rate_bps: int
    program: ProgramRuns
    judgement: ProgramJudgement
    repeats: tuple[float, ...]
    mtu: int = 1500
    lane: str = ""
    settings: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def rtt_text(self) -> str:
        """The RTT, after the lane's name where it has one."""
        return f"{self.lane} {units.format_duration(self.rtt_ns)}".strip()

    @property
    def mean_s(self) -> float:
        """The completion time: the mean of all measurements."""
        return sum(self.repeats) / len(self.repeats)

    @property
    def half_s(self) -> float:
        """Its 99 % half-width: of the measurements' means, or of the runs of a single measurement."""
        return half_width(self.repeats if len(self.repeats) > 1 else self.program.completion_s)

    @property
    def round_trips(self) -> float | None:
        """How many RTTs the completion time is; None at RTT 0."""
        return self.mean_s * NS / self.rtt_ns if self.rtt_ns else None

    @property
    def point(self) -> LawPoint:
        """The cell as the law needs it."""
        times = self.repeats if len(self.repeats) > 1 else self.program.completion_s
        again = self.program.median.retransmits
        return LawPoint(self.rtt_ns, self.rate_bps, self.program.bytes, times, self.mtu, again)

    @property
    def quiet_share(self) -> float | None:
        """The share of the time with no frame on the lane; None when no frames were seen, and without a delay."""
        frames = self.program.frames if self.rtt_ns else None
        return frames.quiet_ns / frames.completion_ns if frames and frames.completion_ns else None


class Series(Struct, frozen=True, dict=True):
    """The rows of one table, by RTT and rate, and their law."""

    name: str
    rows: tuple[ProgramRow, ...]

    @cached_property
    def points(self) -> tuple[LawPoint, ...]:
        """The valid cells."""
        return tuple(row.point for row in self.rows if not row.judgement.invalid)

    @cached_property
    def law(self) -> ProgramLaw | NoLaw:
        """The law of the valid cells, over as wide a range of RTTs as one holds."""
        return program_law.widest(self.points)

    @property
    def law_text(self) -> str:
        """The law as a sentence."""
        return program_law.sentence(self.law, self.points)

    @property
    def advised(self) -> list[ProgramRow]:
        """The valid cells for which there is advice."""
        return [row for row in self.rows if row.judgement.advice and not row.judgement.invalid]

    @property
    def longest(self) -> ProgramRow | None:
        """The one that takes longest."""
        return max(self.advised, key=lambda row: row.mean_s, default=None)

    @property
    def advice(self) -> str:
        """What would shorten it; empty when there is none."""
        return f"at {self.label(self.longest)}: {self.longest.judgement.advice}" if self.longest else ""

    @property
    def several_rates(self) -> bool:
        """Whether the rate is a column of its own."""
        return len({row.rate_bps for row in self.rows}) > 1

    def label(self, row: ProgramRow) -> str:
        """The row's RTT, and its rate where several were measured."""
        rate = f", {units.format_rate(row.rate_bps)}" if self.several_rates else ""
        return f"{row.rtt_text}{rate}"

    @property
    def lines(self) -> list[str]:
        """What stands below the table."""
        return [f"law: {self.law_text}", *([f"largest saving, {self.advice}"] if self.advice else [])]


def series_of(rows: Sequence[ProgramRow]) -> list[Series]:
    """The rows by series, in the order of their first row."""
    found: dict[str, list[ProgramRow]] = {}
    for row in rows:
        found.setdefault(row.series, []).append(row)
    return [Series(name, tuple(sorted(all, key=lambda r: (r.rtt_ns, r.rate_bps)))) for name, all in found.items()]


def table(series: Series) -> Table:
    """The figures of one series. The rate has a column where several were measured."""
    shown = [name for name in HEADER if name != "rate" or series.several_rates]
    rows = tuple(tuple(_cells(row)[name] for name in shown) for row in series.rows)
    return Table(series.name, tuple(shown), rows, ("limited by",), tuple(series.lines))


def overview(all: Sequence[Series]) -> Table:
    """Completion times: one row for each RTT and rate, one column for each series. A missing cell is "-"."""
    together = Series("", tuple(row for series in all for row in series.rows))
    places = sorted({(row.rtt_ns, row.rate_bps, together.label(row)) for row in together.rows})
    times = {(row.series, together.label(row)): time_text(row) for row in together.rows}
    rows = tuple((label, *(times.get((one.name, label), "-") for one in all)) for _, _, label in places)
    return Table("completion time", ("RTT", *(one.name for one in all)), rows)


def time_text(row: ProgramRow) -> str:
    """The completion time with its interval, and its mark where the cell is invalid."""
    return (INVALID_MARK if row.judgement.invalid else "") + seconds_text(row.mean_s, row.half_s)


def _cells(row: ProgramRow) -> dict[str, str]:
    run, frames = row.program.median, row.program.frames
    first = frames.first_byte_ns if frames else None
    return {
        "RTT": row.rtt_text,
        "rate": units.format_rate(row.rate_bps),
        "time": time_text(row),
        "round trips": "-" if row.round_trips is None else f"{row.round_trips:.1f}",
        "FCT efficiency": "-" if row.judgement.efficiency is None else f"{row.judgement.efficiency:.1%}",
        "connections": str(len(run.connections) or "-"),
        "sent": size_text(run.payload_sent_bytes) if run.connections else "-",
        "received": size_text(run.payload_received_bytes) if run.connections else "-",
        "sent again": str(run.retransmits) if run.connections or run.retransmits else "-",
        "first byte": "-" if first is None else seconds_text(first / NS),
        "quiet": "-" if row.quiet_share is None else f"{row.quiet_share:.0%}",
        "limited by": row.judgement.limiter,
    }


def size_text(size_bytes: int) -> str:
    """A size that was measured, with three digits: "267 B", "12.3 KiB", "64 MiB"."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1024:.3g} KiB" if size_bytes < 1000 * 1024 else units.mib_text(size_bytes)


def _of_kind(kind: str) -> str:
    """The CSV column with the share of the completion time that went into one of `program_time.KINDS`."""
    return f"in_{kind.replace(' ', '_')}_ns"


SETTINGS = ("cell", "lane", "program", "profile", "congestion_control", "direction", "loss", "rtt_measured_ns")
CSV_COLUMNS = (
    *SETTINGS, "series", "rtt_asked_ns", "rate_bps", "mtu", "runs", "repeats", "completion_mean_s",
    "completion_half_width_s", "completion_least_s", "completion_most_s", "round_trips", "fct_efficiency", "bytes",
    "connections", "payload_sent_bytes", "payload_received_bytes", "wire_sent_bytes", "wire_received_bytes",
    "retransmits", "first_byte_ns", "quiet_share", "kind", "limiter", "evidence", "advice",
    *(_of_kind(kind) for kind in program_time.KINDS),
    "law_round_trips", "law_round_trips_half_width", "law_own_s", "law_own_half_width_s", "law_completion_s",
    "left_out_completion_s", "kernel", "invalid",
)  # fmt: skip


def csv_text(rows: Sequence[ProgramRow]) -> str:
    """CSV for a spreadsheet: one line for each cell, in integers or full precision; its law is in each of them.

    What only TCP connections tell is empty for a program without one.
    `left_out_completion_s` is what the law of all other RTTs predicts.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in series_of(rows):
        left = {left.point: left.forecast.completion_s for left in program_law.leave_one_out(one.points)}
        for row in one.rows:
            told: dict[str, Any] = {**_measured(row), **_of_law(one.law, row)}
            told["left_out_completion_s"] = left.get(row.point)
            writer.writerow({name: _plain(told.get(name)) for name in CSV_COLUMNS})
    return out.getvalue()


def _plain(value: Any) -> Any:
    """A value as CSV has it: nothing for None and for an infinite half-width, and seconds to the nanosecond."""
    if isinstance(value, float):
        return round(value, 9) + 0.0 if math.isfinite(value) else ""
    return "" if value is None else value


def _measured(row: ProgramRow) -> Mapping[str, Any]:
    run, frames, said = row.program.median, row.program.frames, row.judgement
    known = program_time.KINDS if run.connections else program_time.OF_ANY_PROTOCOL
    return {
        **{_of_kind(kind): 0 for kind in known},
        **{_of_kind(part.kind): part.time_ns for part in said.shares},
        **row.settings,
        "series": row.series,
        "rtt_asked_ns": row.rtt_ns,
        "rate_bps": row.rate_bps,
        "mtu": row.mtu,
        "runs": len(row.program.runs),
        "repeats": len(row.repeats),
        "completion_mean_s": row.mean_s,
        "completion_half_width_s": row.half_s,
        "completion_least_s": min(row.program.completion_s),
        "completion_most_s": max(row.program.completion_s),
        "round_trips": row.round_trips,
        "fct_efficiency": said.efficiency,
        "bytes": row.program.bytes,
        "connections": len(run.connections) or None,
        "payload_sent_bytes": run.payload_sent_bytes if run.connections else None,
        "payload_received_bytes": run.payload_received_bytes if run.connections else None,
        "wire_sent_bytes": run.sent_bytes,
        "wire_received_bytes": run.received_bytes,
        "retransmits": run.retransmits if run.connections or run.retransmits else None,
        "first_byte_ns": frames.first_byte_ns if frames else None,
        "quiet_share": row.quiet_share,
        **{name: getattr(said, name) for name in ("kind", "limiter", "evidence", "advice")},
        "invalid": "; ".join(said.invalid),
    }


def _of_law(law: ProgramLaw | NoLaw, row: ProgramRow) -> Mapping[str, Any]:
    if isinstance(law, NoLaw) or row.point not in law.points:
        return {}
    return {
        "law_round_trips": law.round_trips,
        "law_round_trips_half_width": law.round_trips_half,
        "law_own_s": law.own_s,
        "law_own_half_width_s": law.own_half_s,
        "law_completion_s": law.completion_s(row.point),
    }
