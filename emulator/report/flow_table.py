"""Results of groups of flows as tables: what each group got, and each pair. Pure text; the functions of `tables`."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from emulator import units
from emulator.analysis import flow_figures, flow_shares
from emulator.analysis.flow_figures import GroupFigures
from emulator.experiment import grid
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.flows_result import FlowsResult, contest_of, path_of
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.model.flow_group import Contest, FlowGroup
from emulator.report import remarks
from emulator.report.tables import INVALID_MARK, THROUGHPUT, Table, label, several_lanes
from emulator.units import both_rates

TITLE = "Flows against flows"
ADVICE = "what would make the shares fairer:"
advice = remarks.advice
LEGEND = (
    f"{THROUGHPUT} of payload at the receiver, in the last half of the time in which all groups send; of fair: over "
    "what as many average flows of all groups get; J: Jain's index of the flows; harm: what the other groups take of "
    "the rate (of transfers: of the time) that the group has alone; fair after: from the last group's start until the "
    "rate was within a tenth of the fair one, and so was its mean from then on; queueing: the smoothed RTT above the "
    "lane's; again: segments sent again; p50, p99: the times of transfers; of ideal: the time at the full rate of the "
    f"line without a queue, over p50 (FCT efficiency). {INVALID_MARK}: invalid, reasons below."
)
GROUP_COLUMNS = (
    "group", THROUGHPUT, "of line", "of fair", "J", "harm", "fair after", "queueing", "p95", "again",
    "p50 of transfers", "p99", "of ideal",
)  # fmt: skip
DETAILS = ("RTT", "groups", *GROUP_COLUMNS)
NONE = "-"
MOST_COLUMNS = 3
"""Of shares: each is about as wide as a third of a terminal."""
Pairs = dict[tuple[str, str], tuple[float, bool]]
"""What a flow of the first congestion control has of its fair share against one of the second, and whether the cell is
valid."""


class GroupRow(Struct, frozen=True):
    """One group of a measured cell."""

    result: FlowsResult
    group: FlowGroup
    figures: GroupFigures
    harm: float | None

    @property
    def rtt_ns(self) -> int:
        """The RTT of the group without a queue."""
        return self.group.rtt_ns or self.result.delays.rtt_ns

    @property
    def ideal_ns(self) -> int | None:
        """The least time of its transfers."""
        return flow_figures.ideal_transfer_ns(self.group, self.result.judgement.line_bytes_per_s, self.rtt_ns)

    @property
    def fct_efficiency(self) -> float | None:
        """The least time of its transfers over the median of their times."""
        return (
            None if self.ideal_ns is None or not self.figures.times.count else self.ideal_ns / self.figures.times.p50_ns
        )


def rows(found: Mapping[str, FlowsResult]) -> list[GroupRow]:
    """Every group of every cell, in order."""
    alone = {
        (_without_contest(one.spec), one.contest): one.flows.groups[0]
        for one in found.values()
        if len(one.contest.groups) == 1
    }
    return [
        GroupRow(one, group, figures, _harm(one, group, figures, alone))
        for one in found.values()
        for group, figures in zip(one.contest.groups, one.flows.groups, strict=True)
    ]


def _without_contest(spec: CellSpec) -> str:
    """What a cell shares with that of one of its groups alone."""
    return replace(spec, workload=FlowsWorkload(Contest((FlowGroup("none"),)))).id


def _harm(
    result: FlowsResult, group: FlowGroup, figures: GroupFigures, alone: Mapping[tuple[str, Contest], GroupFigures]
) -> float | None:
    """The harm to the group; None of a group that is alone, and of one that was not measured alone."""
    one = alone.get((_without_contest(result.spec), Contest((group,))))
    if one is None or len(result.contest.groups) == 1:
        return None
    if group.is_endless:
        return flow_shares.harm(one.bytes_per_s, figures.bytes_per_s)
    return flow_shares.harm(one.times.p50_ns, figures.times.p50_ns, less_is_better=True)


def overview(specs: Sequence[CellSpec], found: Mapping[str, FlowsResult]) -> Table:
    """The share of each group: one row for each contest, one column for each RTT and other setting if they are few,
    else one row for each of both."""
    title = "shares of the throughput, and Jain's index of all flows"
    settings = list(dict.fromkeys(_settings(spec, several_lanes(specs)) for spec in specs))
    body: dict[str, dict[str, str]] = {}
    for spec in specs:
        text = shares(found[spec.id]) if spec.id in found else NONE
        body.setdefault(contest_of(spec).title, {})[_settings(spec, several_lanes(specs))] = text
    if len(settings) > MOST_COLUMNS:
        pairs = tuple(
            (setting, name, body[name][setting]) for setting in settings for name in body if setting in body[name]
        )
        return Table(title, ("setting", "groups", "shares"), pairs, ("setting", "groups"))
    table = tuple((name, *(cells.get(setting, NONE) for setting in settings)) for name, cells in body.items())
    return Table(title, ("groups", *settings), table, ("groups",))


def _settings(spec: CellSpec, named: bool) -> str:
    """A cell's RTT and what else it differs in besides its groups."""
    title = contest_of(spec).title
    return ", ".join([label(spec, named), *(part for part in spec.column.split(", ") if part != title)])


def shares(result: FlowsResult) -> str:
    """What each group has of the throughput, and Jain's index; of a group that is alone its rate."""
    mark = INVALID_MARK if result.judgement.invalid else ""
    if len(result.contest.groups) == 1:
        return f"{mark}{both_rates(result.flows.bytes_per_s)}"
    each = " : ".join(f"{group.share:.0%}" for group in result.flows.groups)
    return f"{mark}{each}, J {result.flows.jain:.3f}"


def group_rows(found: Mapping[str, FlowsResult]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """By cell the texts of its groups below GROUP_COLUMNS."""
    texts: dict[str, tuple[tuple[str, ...], ...]] = {}
    for row in rows(found):
        texts[row.result.spec.id] = (*texts.get(row.result.spec.id, ()), _row(row))
    return texts


def details(specs: Sequence[CellSpec], found: Mapping[str, FlowsResult]) -> list[Table]:
    """One table for each setting besides RTT and groups, with a row for every group; and the pairs as matrices."""
    named, tables = several_lanes(specs), dict[str, list[tuple[str, ...]]]()
    for row in rows({spec.id: found[spec.id] for spec in specs if spec.id in found}):
        spec, title = row.result.spec, contest_of(row.result.spec).title
        setting = ", ".join(part for part in spec.column.split(", ") if part != title)
        tables.setdefault(setting, []).append((label(spec, named), title, *_row(row)))
    left = ("groups", "group")
    matrices = pairs([found[spec.id] for spec in specs if spec.id in found])
    return [
        *(Table(name, DETAILS, tuple(body), left) for name, body in tables.items()),
        *(_matrix(setting, shares) for setting, shares in matrices.items()),
    ]


def _row(row: GroupRow) -> tuple[str, ...]:
    """The texts of a group below GROUP_COLUMNS."""
    figures, result, contest = row.figures, row.result, row.result.contest
    mark = INVALID_MARK if result.judgement.invalid else ""
    shared, transfers = len(contest.groups) > 1, not row.group.is_endless
    p95_ns = None if figures.trip_p95_ns is None else max(0, figures.trip_p95_ns - row.rtt_ns)
    after = NONE if figures.fair_after_ns is None else f"{figures.fair_after_ns / 1e9:.1f} s"
    return (
        row.group.title,
        mark + both_rates(figures.bytes_per_s),
        f"{figures.bytes_per_s / result.judgement.line_bytes_per_s:.1%}",
        NONE if figures.fair_share is None or not shared else f"{figures.fair_share:.2f}",
        f"{figures.jain:.3f}" if row.group.flows > 1 and not transfers else NONE,
        NONE if row.harm is None else f"{row.harm:.0%}",
        after if shared and not transfers else NONE,
        _ms(figures.queueing_ns(row.rtt_ns)),
        _ms(p95_ns),
        str(figures.sockets.retransmits),
        _ms(figures.times.p50_ns if transfers else None),
        _ms(figures.times.p99_ns if transfers else None),
        NONE if row.fct_efficiency is None else f"{row.fct_efficiency:.1%}",
    )


def _ms(ns: int | None) -> str:
    return NONE if ns is None else f"{ns / 1e6:.1f} ms"


def pairs(cells: Sequence[FlowsResult]) -> dict[str, Pairs]:
    """For each setting the pairs of congestion controls with one flow each, where these are three or more. Of two flows
    with the same one, the lesser share counts."""
    named, found = several_lanes([cell.spec for cell in cells]), dict[str, Pairs]()
    for cell in cells:
        groups = cell.contest.groups
        if len(groups) == 2 and all(group == FlowGroup(group.congestion_control) for group in groups):
            shares, valid = found.setdefault(_settings(cell.spec, named), {}), not cell.judgement.invalid
            for one, other, figures in zip(groups, reversed(groups), cell.flows.groups, strict=True):
                pair, share = (one.congestion_control, other.congestion_control), figures.fair_share or 0
                shares[pair] = (min(share, shares[pair][0]) if pair in shares else share, valid)
    return {setting: shares for setting, shares in found.items() if len(shares) > 2}


def _matrix(setting: str, shares: Pairs) -> Table:
    names = controls(shares)
    texts = {pair: f"{'' if valid else INVALID_MARK}{share:.2f}" for pair, (share, valid) in shares.items()}
    body = tuple((one, *(texts.get((one, other), NONE) for other in names)) for one in names)
    return Table(f"of its fair share against: {setting}", ("", *(f"against {name}" for name in names)), body, ("",))


def controls(shares: Pairs) -> list[str]:
    """The congestion controls of the pairs, as the cells have them."""
    return list(dict.fromkeys(name for pair in shares for name in pair))


def figure_text(result: FlowsResult) -> str:
    """The figure by which two runs are compared: the first group's rate."""
    mark = INVALID_MARK if result.judgement.invalid else ""
    return f"{mark}{both_rates(result.figure)} ± {remarks.uncertainty(result)}"


PLAN = ("cell", "RTT", "runs for", "groups", "fair share of a flow")


def _fair_bytes_per_s(spec: CellSpec) -> float:
    """What each flow without an end has when all share the line evenly, and transfers take nothing of it."""
    path, flows = path_of(spec), sum(group.flows for group in contest_of(spec).groups if group.is_endless)
    return path.line_bytes_per_s / max(1, flows)


def planned(specs: Sequence[CellSpec]) -> Table:
    """The cells that would be measured, with the fair share of each flow."""
    body = tuple(
        (
            spec.id, units.format_duration(spec.lane.rtt_ns), f"{spec.duration_s} s", contest_of(spec).title,
            both_rates(_fair_bytes_per_s(spec)),
        )
        for spec in specs
    )  # fmt: skip
    return Table("planned", PLAN, body, ("cell", "groups"))


def plan_legend(specs: Sequence[CellSpec], repeats: int) -> str:
    """What stands below the plan."""
    lasts = units.format_duration(grid.virtual_s(specs, repeats) * 10**9)
    return f"flows send for {lasts}; each group of several is measured alone too, for the harm that others do to it."


def plan_json(specs: Sequence[CellSpec], repeats: int) -> dict[str, Any]:
    """The plan as JSON."""
    cells = [
        {
            "id": spec.id,
            "duration_s": spec.duration_s,
            "groups": [str(group) for group in contest_of(spec).groups],
            "fair_bytes_per_s": _fair_bytes_per_s(spec),
        }
        for spec in specs
    ]
    return {"cells": cells, "least_repeats": repeats}


CSV_COLUMNS = (
    "cell", "lane", "rtt_asked_ns", "rtt_measured_ns", "rate_bps", "buffer_bytes", "profile", "duration_s",
    "direction", "mtu", "loss", "groups", "group", "congestion_control", "flows", "repeats", "bytes_per_s", "share",
    "fair_share", "jain", "jain_of_all", "harm", "fair_after_ns", "trip_p50_ns", "trip_p95_ns", "least_trip_ns",
    "retransmits", "transfers", "transfer_p50_ns", "transfer_p99_ns", "transfer_ideal_ns", "fct_efficiency",
    "drops_limit", "drops_buffer", "drops_loss", "kind", "limiter", "evidence", "advice", "kernel", "invalid",
)  # fmt: skip


def csv_text(specs: Sequence[CellSpec], found: Mapping[str, FlowsResult]) -> str:
    """CSV for a spreadsheet: one line for each group of each cell, in integers or full precision."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows({spec.id: found[spec.id] for spec in specs if spec.id in found}):
        spec, figures, path = row.result.spec, row.figures, path_of(row.result.spec)
        own = {
            "cell": spec.id,
            "lane": spec.lane.name,
            "rtt_asked_ns": spec.lane.rtt_ns,
            "rtt_measured_ns": row.result.delays.rtt_ns,
            "profile": spec.profile.name,
            "duration_s": spec.duration_s,
            "direction": spec.direction,
            "groups": str(row.result.contest),
            "group": str(row.group),
            "flows": row.group.flows,
            "repeats": len(row.result.repeats),
            "jain_of_all": row.result.flows.jain,
            "harm": row.harm,
            "retransmits": figures.sockets.retransmits,
            "transfers": figures.times.count,
            "transfer_p50_ns": figures.times.p50_ns,
            "transfer_p99_ns": figures.times.p99_ns,
            "transfer_ideal_ns": row.ideal_ns,
            "fct_efficiency": row.fct_efficiency,
            "invalid": "; ".join(row.result.judgement.invalid),
        }
        groups = (path, row.result.queues, row.result.judgement, figures)
        writer.writerow({name: value for group in groups for name, value in asdict(group).items()} | own)
    return out.getvalue()
