"""`longhaul verify --impairments`: the table of every impairment, requested and measured."""

from __future__ import annotations

from collections.abc import Sequence

import click

from emulator.analysis.impairment_statistics import ImpairmentCheck
from emulator.cli.options import need_up
from emulator.cli.output import emit_json, emit_table
from emulator.control.appliance import Appliance
from emulator.errors import EXIT_NOT_AS_ASKED, InputError
from emulator.experiment.impairment_test import Proof, prove
from emulator.hosts.tools import time_tolerance
from emulator.system import clock

PACKETS_VIRTUAL, PACKETS_REAL = 20_000, 1_000
COLUMNS = ("lane", "direction", "impairment", "asked", "measured", "99.9 % interval", "verdict")


def run(ctx: click.Context, appliance: Appliance, lanes: Sequence[str], packets: int | None, as_json: bool) -> None:
    """Measure these lanes, or all lanes; print the table; exit with 8 when a value differs from its setting."""
    topology = need_up(appliance.topology())
    if not topology.virtual_lanes:
        raise InputError.single(f"{topology.name} has no virtual lane, so no host here can send packets")
    for lane in lanes:
        if lane not in topology.sites:
            raise InputError.single(f"no such lane; there are {', '.join(topology.sites)}", "LANE", lane)
    count = packets or (PACKETS_VIRTUAL if clock.here_is_virtual() else PACKETS_REAL)
    proofs = prove(topology.in_effect, count, time_tolerance.rtt_tolerance_ns(), lanes)
    if as_json:
        emit_json(
            {"packets": count, "passed": all(p.row.passed for p in proofs), "rows": [p.to_json() for p in proofs]}
        )
    else:
        emit_table(COLUMNS, _cells(proofs), left=("lane", "direction", "impairment", "verdict"))
        per = "direction and flow" if any(proof.flow for proof in proofs) else "direction"
        click.echo(f"\n{count} packets per {per}; a row fails when two measurements in turn miss its 99.9 % interval.")
    if not all(p.row.passed for p in proofs):
        ctx.exit(EXIT_NOT_AS_ASKED)


def _cells(proofs: Sequence[Proof]) -> list[list[str]]:
    """Rows of the table; a value equal to the one above stays empty. A flow's name is below its lane's."""
    rows, before = [], ("", "")
    for one in proofs:
        row, here = one.row, (f"  {one.flow}" if one.flow else one.lane, one.direction)
        unit = f" {row.unit}" if row.unit else ""
        rows.append([
            here[0] if here[0] != before[0] else "", one.direction if here != before else "", row.what,
            f"{_figure(row, row.asked)}{unit}", f"{_figure(row, row.measured)}{unit}",
            f"{_figure(row, row.low)} .. {_figure(row, row.high)}", "ok" if row.passed else "FAILED",
        ])  # fmt: skip
        before = here
    return rows


def _figure(row: ImpairmentCheck, value: float) -> str:
    """Six digits for a time, four for a random quantity."""
    return f"{value:.6g}" if row.unit == "ms" or abs(value) >= 1000 else f"{value:.4g}"
