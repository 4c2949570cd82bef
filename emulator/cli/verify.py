"""verify: the command that measures every RTT and writes a certificate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from emulator import units
from emulator.cli.complete import lane_names
from emulator.cli.options import TIME, appliance_of, need_up
from emulator.cli.output import emit_json, emit_table, json_option
from emulator.cli.types import progress
from emulator.errors import EXIT_NOT_AS_ASKED, InputError, no_such

if TYPE_CHECKING:
    from emulator.experiment.engine_lateness import Late
    from emulator.experiment.rtt_certificate import Pair


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul verify\n"
    "  longhaul verify japan\n"
    "  longhaul verify --count 100 --output japan.json\n"
    "  longhaul verify --impairments --packets 5000\n"
    "  longhaul lab run -- sh -c 'longhaul up topologies/new-york.yaml && longhaul verify'"
)
@click.argument("lanes", nargs=-1, metavar="[LANE]...", shell_complete=lane_names)
@click.option(
    "--count", type=click.IntRange(1, 10_000), default=10, show_default=True, metavar="N", help="Echoes per pair."
)
@click.option("--tolerance", "tolerance_ns", type=TIME, help="Allowed difference; 10us in the lab, else 1ms.")
@click.option("--output", type=click.Path(dir_okay=False), help="Write the certificate (JSON) to this file.")
@click.option("--impairments", is_flag=True, help="Measure loss, jitter, rate and more of every direction instead.")
@click.option(
    "--packets",
    type=click.IntRange(100, 1_000_000),
    metavar="N",
    help="Packets per direction, at least 100; default 20000 in the lab, else 1000.",
)
@json_option
@click.pass_context
def verify(
    ctx: click.Context, lanes: tuple[str, ...], count: int, tolerance_ns: int | None, output: str | None,
    impairments: bool, packets: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Ping every pair of hosts of the active topology, or those of the LANEs, and compare requested and measured RTT.

    With --impairments, numbered packets through every direction measure loss, bursts, marks, duplicates, corruption,
    reordering, delay or jitter's shape, rate and buffer. Exits with 8 when a measured value differs from its setting.
    """
    if impairments:
        from emulator.cli.impairments import run

        if output or tolerance_ns is not None:
            raise click.UsageError("--output and --tolerance are of the certificate of RTTs, without --impairments")
        run(ctx, appliance_of(ctx), lanes, packets, as_json)
        return
    from emulator.experiment import rtt_certificate
    from emulator.hosts.tools import time_tolerance
    from emulator.system import clock, named_file

    if output:
        named_file.check(Path(output), "--output")
    status = appliance_of(ctx).status()
    topology = need_up(status.topology)
    allowed_ns = time_tolerance.rtt_tolerance_ns() if tolerance_ns is None else tolerance_ns
    for lane in lanes:
        if lane not in topology.sites:
            raise InputError.single(no_such("lane", lane, topology.sites), "LANE")
    pairs = []
    wanted = rtt_certificate.pairs(topology, lanes)
    with progress(len(wanted), "ping") as advance:
        at_once = 1 if clock.here_is_virtual() else rtt_certificate.AT_ONCE
        for pair in rtt_certificate.measure(topology, count, allowed_ns, at_once, wanted):
            pairs.append(pair)
            advance(1, f"{pair.one} - {pair.other}")
    certificate = rtt_certificate.certificate(status, appliance_of(ctx).status(), count, allowed_ns, pairs)
    # What was measured is shown even where the file cannot be written.
    if as_json:
        emit_json(certificate.to_json())
    else:
        _emit_pairs(pairs, allowed_ns)
        _emit_lateness(certificate.late)
    if output:
        named_file.write(Path(output), json.dumps(certificate.to_json(), indent=2) + "\n")
    if not certificate.passed:
        ctx.exit(EXIT_NOT_AS_ASKED)


def _emit_pairs(pairs: Sequence[Pair], allowed_ns: int) -> None:
    """The matrix as one row for each pair, in ms; where jitter allows a pair more than the others, what each may be
    off."""
    wider = any(pair.allowed_ns != allowed_ns for pair in pairs)
    header = ("from", "to", "asked", *(["allowed"] if wider else []), "min", "median", "p99", "lost", "")
    rows = [
        [
            *(pair.one, pair.other, _ms(pair.asked_ns), *([f"± {_ms(pair.allowed_ns)}"] if wider else [])),
            *(_ms(ns) for ns in (pair.min_ns, pair.median_ns, pair.p99_ns)),
            *(str(pair.lost), "ok" if pair.passed else "FAILED"),
        ]
        for pair in pairs
    ]
    emit_table(header, rows, left=("from", "to", ""))
    click.echo(f"\nRTT in ms; {_off(pairs, allowed_ns, wider=wider)}.")


def _off(pairs: Sequence[Pair], allowed_ns: int, *, wider: bool) -> str:
    """How many pairs are off by more than they may be, and how many lost echoes without reason, as a clause."""
    off, lost = sum(not pair.near for pair in pairs), sum(pair.near and not pair.passed for pair in pairs)
    verdict = f"{off} of {len(pairs)} pairs are" if off else "no pair is"
    most = units.format_duration(allowed_ns)
    most = f"allowed: {most} and as far as jitter or reordering on its path reaches" if wider else most
    found = f"{verdict} off by more than {most}"
    return (
        f"{found}; {lost} of {len(pairs)} pairs lost echoes although no lane between them has loss" if lost else found
    )


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.3f}"


def _emit_lateness(late: Sequence[Late]) -> None:
    """Print how much delay the machine added in the wire engine, and where it was too much."""
    if not late:
        return
    worst = max(late, key=lambda one: one.p99_ns)
    click.echo(f"Frames left the wire engine at most {worst.p99_ns / 1e3:.1f} us late (99 of 100).")
    for one in late:
        if not one.passed:
            click.echo(f"FAILED: {one}: this machine is too busy for valid figures.")
