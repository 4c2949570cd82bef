"""demo: the founding star and a small table of throughput, in the lab."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import Any

import click

from emulator.cli.build_progress import build_progress
from emulator.cli.kernel_options import own_kernel_options, with_kernel
from emulator.cli.output import emit_json, json_option
from emulator.control import doctor
from emulator.lab import boot
from emulator.lab.boot_options import BootOptions, Reader
from emulator.lab.lab_root import RootChoice

STAR = "longhaul up new-york && longhaul verify"
STAR_AS_JSON = "longhaul up new-york >&2 && longhaul verify --json"
TABLE = (
    "sweep", "--in-lab", "--rtt", "2,32,80", "--tcp-profile", "default,max", "--rate", "1Gbit", "--duration", "4s",
    "--repeats", "1",
)  # fmt: skip


@click.command(epilog="\b\nExamples:\n  longhaul demo\n  longhaul demo --image --json\n  longhaul demo --kernel 7.2")
@click.option("--image", is_flag=True, help="The programs of the lab's image, even where this machine has its own.")
@own_kernel_options
@json_option
@click.pass_context
def demo(ctx: click.Context, /, image: bool, as_json: bool, **given: Any) -> None:
    """Verify the RTTs of the founding star and measure a small table of throughput, in the lab.

    The table's results are a run in the folder runs, as those of a sweep.
    """
    reader = Reader()
    choice = with_kernel(RootChoice(host=not image and doctor.can_measure()), given, reader)
    reader.finish()
    said = bytearray()
    options = BootOptions(stdout=said.extend if as_json else None)
    with build_progress() as progress:
        choice = boot.settled(progress, choice)
        code = boot.run(["sh", "-c", STAR_AS_JSON if as_json else STAR], options, choice, progress)
    if code:
        ctx.exit(code)
    table = [*TABLE, *(["--host-root"] if choice.host else []), *(["--kernel", choice.kernel] if choice.kernel else [])]
    if as_json:
        code, run = _sweep_as_json(table)
        emit_json({"programs": choice.option or "image", "rtt": json.loads(said), "run": run})
    else:
        click.echo()
        code = _sweep(table)
    ctx.exit(code)


def _sweep(command: list[str]) -> int:
    from emulator.cli.main import main

    return main(command)


def _sweep_as_json(command: list[str]) -> tuple[int, object]:
    """Its exit code and its answer; None when it failed, which it told on stderr."""
    answer = io.StringIO()
    with redirect_stdout(answer):
        code = _sweep([*command, "--json"])
    return code, json.loads(answer.getvalue()) if answer.getvalue() else None
