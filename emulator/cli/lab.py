"""`longhaul lab`: build the lab, show its state, run a command or a shell in it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import click

from emulator import units
from emulator.cli.build_progress import build_progress
from emulator.cli.output import json_option


@click.group(
    epilog="\b\nExamples:\n"
    "  longhaul lab build\n"
    "  longhaul lab run -- longhaul up topologies/new-york.yaml\n"
    "  longhaul lab shell"
)
def lab() -> None:
    """Run Linux's own TCP, bridge and netem in virtual time. The lab needs no root, no netem and no NICs."""


@lab.command(epilog="\b\nExample:\n  longhaul lab build")
@json_option
def build(as_json: bool) -> None:
    """Build the kernel and the root image, both at the same time.

    Builds only what is missing. The first build takes about four minutes on two CPUs.
    """
    from emulator.lab.build import build_lab

    with build_progress() as progress:
        linux, root = build_lab(progress)
    click.echo(json.dumps({"kernel": str(linux), "image": str(root)}) if as_json else f"{linux}\n{root}")


@lab.command(epilog="\b\nExamples:\n  longhaul lab info\n  longhaul lab info --json")
@json_option
def info(as_json: bool) -> None:
    """Show whether the lab can run here.

    Also shows where its kernel and image are, and their sizes.
    """
    from emulator.lab import build_cache, build_image, build_kernel, runtime

    linux, root = build_kernel.place() / "linux", build_image.place() / "root"
    facts = {
        "cache": str(build_cache.folder()),
        "kernel": str(linux),
        "kernel_bytes": linux.stat().st_size if linux.exists() else None,
        "image": str(root),
        "image_bytes": _size(root) if root.exists() else None,
        "why_not": runtime.why_not(),
    }
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for name, size in (("kernel", facts["kernel_bytes"]), ("image", facts["image_bytes"])):
        state = f"{size / 2**20:.0f} MiB" if isinstance(size, int) else "not built yet: longhaul lab build"
        click.echo(f"{name:8}{facts[name]}  ({state})")
    reasons = runtime.why_not()
    click.echo("runs here" if not reasons else "cannot run here: " + "; ".join(reasons))


@lab.command(
    context_settings={"ignore_unknown_options": False},
    epilog="\b\nExamples:\n"
    "  longhaul lab run -- ip link\n"
    "  longhaul lab run --seed 7 --timeout 10min -- python3 -m pytest tests/lab",
)
@click.option("--real-time", is_flag=True, help="Use the host's clock; measurements are then not exact.")
@click.option("--mem", default="8G", show_default=True, metavar="SIZE", help="The guest's memory.")
@click.option("--seed", default=1, show_default=True, metavar="N", help="Seed of all the guest's random numbers.")
@click.option("--timeout", metavar="TIME", help="End the command after this wall-clock time; exit code 124.")
@click.option(
    "--start-date",
    default="2001-09-09T01:46:40",
    show_default=True,
    metavar="DATE",
    help="The start of the virtual clock, in UTC.",
)
@click.option(
    "--stall",
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="End the command, with exit code 125, when the virtual clock stands still for this much CPU time.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    real_time: bool, mem: str, seed: int, timeout: str | None, start_date: str, stall: float, command: tuple[str, ...]
) -> None:
    """Run COMMAND as root in the lab. It can read and write the current folder; the exit code is COMMAND's."""
    from emulator.lab import boot

    with build_progress() as progress:
        code = boot.run(
            command,
            cwd=Path.cwd(),
            real_time=real_time,
            memory=mem,
            seed=seed,
            timeout_s=_seconds(timeout),
            start_ns=_start_ns(start_date),
            stall_cpu_s=stall,
            progress=progress,
        )
    sys.exit(code)


@lab.command(epilog="\b\nExample:\n  longhaul lab shell")
@click.option("--mem", default="8G", show_default=True, metavar="SIZE", help="The guest's memory.")
def shell(mem: str) -> None:
    """Open an interactive shell in the lab, in real time."""
    from emulator.lab import boot

    sys.exit(boot.shell(mem))


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        # A bare number is seconds; 10m means minutes, as it did before times had units.
        return float(text) if text.isdigit() else units.parse_duration_ns(re.sub(r"^(\d+)m$", r"\1min", text)) / 1e9
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--timeout") from None


def _start_ns(text: str) -> int:
    from datetime import UTC, datetime

    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9
    except ValueError:
        raise click.BadParameter(f"{text!r} is no date: write 2001-09-09T01:46:40", param_hint="--start-date") from None


def _size(root: Path) -> int:
    return sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
