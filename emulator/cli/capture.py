"""capture: the frames of the lanes into pcapng files."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from emulator.cli.complete import lane_names
from emulator.cli.options import TIME, appliance_of, need_up, snap_option
from emulator.cli.output import count, emit_json, emit_table, json_option
from emulator.cli.types import progress
from emulator.errors import InputError, Mistake, no_such

if TYPE_CHECKING:
    from emulator.analysis.observed import CapturedFile
    from emulator.control.appliance import Appliance

TICK_S, MOST_TICKS = 0.5, 20
SHOWN_DIGITS = 16


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul capture frames --for 10s\n"
    "  longhaul capture frames --lane japan --snap 128\n"
    "  longhaul capture frames -- ip netns exec lh-california curl -s http://10.77.0.1/\n"
    "  longhaul lab run --pcap frames -- sh -c 'longhaul up topologies/new-york.yaml && longhaul verify japan'"
)
@click.argument("folder", type=click.Path(file_okay=False), metavar="DIR")
@click.option("--lane", "lanes", multiple=True, metavar="LANE", shell_complete=lane_names, help="Only this lane.")
@snap_option(0)
@click.option("--for", "for_ns", type=TIME, help="Stop after this time; else at Ctrl-C.")
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND]")
@click.pass_context
def capture(
    ctx: click.Context, folder: str, lanes: tuple[str, ...], snap_bytes: int, for_ns: int | None, as_json: bool,
    command: tuple[str, ...],
) -> None:  # fmt: skip
    """Write the frames of the active lanes to DIR, for Wireshark.

    Each port of a lane gets two files: LANE.DIRECTION.in.pcapng has the frames that enter the emulator,
    LANE.DIRECTION.out.pcapng those that leave it with the lane's delay. With a COMMAND the capture lasts as long as the
    command, takes lanes that come up meanwhile too, and exits with the command's code.
    """
    from emulator.control.capture import Capture
    from emulator.control.local import local
    from emulator.hosts.tools import process

    if command and for_ns is not None:
        raise click.UsageError("--for and a COMMAND exclude each other: the capture ends with the command")
    appliance = appliance_of(ctx)
    if not command:
        _check(appliance, lanes)
    follow = local if command else None
    at_work = Capture(appliance, Path(folder), snap_bytes=snap_bytes, lanes=lanes, follow=follow)
    code = 0
    try:
        if command:
            code = process.attached(command)
        else:
            _wait(for_ns)
    except KeyboardInterrupt:
        if command:
            raise
    finally:
        files = at_work.stop()
        _emit(folder, files, as_json, err=bool(command))
    sys.exit(code)


def _check(appliance: Appliance, lanes: Sequence[str]) -> None:
    topology = need_up(appliance.topology(), or_else=", or give a COMMAND that brings lanes up")
    if unknown := [name for name in lanes if name not in topology.sites]:
        raise InputError([Mistake("--lane", "", no_such("lane", name, topology.sites)) for name in unknown])


def _wait(for_ns: int | None) -> None:
    """Wait until the time is over, or for Ctrl-C."""
    if for_ns is None:
        click.echo("capturing; Ctrl-C ends it", err=True)
        while True:
            time.sleep(TICK_S)
    total_s = for_ns / 1e9
    with progress(total_s, "capture") as advance:
        end_s = time.monotonic() + total_s
        while (left_s := end_s - time.monotonic()) > 0:
            tick_s = min(max(TICK_S, total_s / MOST_TICKS), left_s)
            time.sleep(tick_s)
            advance(tick_s, f"{max(0.0, left_s - tick_s):.1f} s left")


def _emit(folder: str, files: Sequence[CapturedFile], as_json: bool, *, err: bool) -> None:
    """The files and what they hold; on stderr beside a command, because stdout is the command's."""
    if as_json:
        emit_json({"folder": folder, "files": [asdict(file) for file in files]}, err=err)
        return
    rows = [[file.name, str(file.frames), str(file.dropped), file.sha256[:SHOWN_DIGITS]] for file in files]
    emit_table(("file", "frames", "lost", "SHA-256"), rows, left=("file", "SHA-256"), err=err)
    click.echo(f"\n{count(len(files), 'file')} in {folder}", err=err)
    if any(file.dropped for file in files):
        click.echo("warning: frames came faster than they could be written: use a smaller --snap", err=True)
