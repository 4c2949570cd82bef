"""demo: the founding star and a small table of throughput, in the lab."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout

import click

from emulator.cli.build_progress import build_progress
from emulator.cli.output import emit_json, json_option
from emulator.control import doctor
from emulator.lab import boot
from emulator.lab.boot_options import BootOptions
from emulator.lab.lab_root import RootChoice

STAR = "longhaul up new-york && longhaul verify"
STAR_AS_JSON = "longhaul up new-york >&2 && longhaul verify --json"
TABLE = (
    "sweep", "--in-lab", "--rtt", "2,32,80", "--tcp-profile", "default,max", "--rate", "1Gbit", "--duration", "4s",
    "--repeats", "1",
)  # fmt: skip


@click.command(epilog="\b\nExamples:\n  longhaul demo\n  longhaul demo --image --json")
@click.option("--image", is_flag=True, help="The programs of the lab's image, even where this machine has its own.")
@json_option
@click.pass_context
def demo(ctx: click.Context, image: bool, as_json: bool) -> None:
    """Verify the RTTs of the founding star and measure a small table of throughput, in the lab.

    The table's results are a run in the folder runs, as those of a sweep.
    """
    choice = RootChoice(host=not image and doctor.can_measure())
    said = bytearray()
    options = BootOptions(stdout=said.extend if as_json else None)
    with build_progress() as progress:
        code = boot.run(["sh", "-c", STAR_AS_JSON if as_json else STAR], options, choice, progress)
    if code:
        ctx.exit(code)
    table = [*TABLE, *(["--host-root"] if choice.host else [])]
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
