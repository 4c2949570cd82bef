"""doctor: what runs on this machine and what does not."""

from __future__ import annotations

import os

import click
from msgspec.structs import asdict

from emulator.cli.output import emit_json, json_option
from emulator.control.doctor import PARTS, examine
from emulator.errors import EXIT_NOT_AS_ASKED


@click.command(
    epilog="\b\nExamples:\n  longhaul doctor\n  longhaul doctor lab programs\n  sudo longhaul doctor netem --json"
)
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)), metavar="[PART]...")
@json_option
@click.pass_context
def doctor(ctx: click.Context, parts: tuple[str, ...], as_json: bool) -> None:
    """Tell what runs on this machine and what does not, with the command that fixes it.

    Parts: lab, programs, netem, engine, ssh, figures, web; all without any. Exit code 8: one of these parts does not
    run here.
    """
    asked = [name for name in PARTS if name in parts or not parts]
    found = []
    for one in examine(asked):
        found.append(one)
        if not as_json:
            _show(one.part, one.check, one.state, one.seen, one.fix)
    broken = [name for name in asked if any(one.part == name and one.state == "missing" for one in found)]
    if as_json:
        emit_json(
            {
                "runs": {name: name not in broken for name in asked},
                "findings": [asdict(one) | {"fix": one.fix or None} for one in found],
            }
        )
    else:
        click.echo(f"does not run here: {', '.join(broken)}" if broken else f"runs here: {', '.join(asked)}")
    ctx.exit(EXIT_NOT_AS_ASKED if broken else os.EX_OK)


def _show(part: str, check: str, state: str, seen: str, fix: str) -> None:
    """A line, and below it the command."""
    click.echo(f"{part:9} {check:10} {state:8} {seen}")
    if fix:
        click.echo(f"{'':29} fix: {fix}")
