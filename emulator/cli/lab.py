"""`longhaul lab`: build the lab, show its state, run a command or a shell in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from emulator.cli import kernel_options
from emulator.cli.build_progress import build_progress
from emulator.cli.kernel_options import build_options, build_own
from emulator.cli.options import snap_option
from emulator.cli.output import json_option
from emulator.cli.root_options import COUNTED, chosen, clock_option, kernel_option, root_options, warn, with_option
from emulator.errors import Mistake
from emulator.lab import boot_options, lab_facts, lab_root
from emulator.lab.boot_options import START, BootOptions

MEMORY_HELP = "The guest's memory, 64M to 128G."


@click.group(
    epilog="\b\nExamples:\n"
    "  longhaul lab build\n"
    "  longhaul lab run -- longhaul up topologies/new-york.yaml\n"
    "  longhaul lab shell"
)
def lab() -> None:
    """Run Linux's own TCP, bridge and netem in virtual time. The lab needs no root, no netem and no NICs."""


@lab.command(
    epilog="\b\nExamples:\n"
    "  longhaul lab build\n"
    "  longhaul lab build --with rsync,nginx\n"
    "  longhaul lab build --kernel-config full\n"
    "  longhaul lab build --kernel 7.2\n"
    "  longhaul lab build --kernel ../linux --config debug.config --name mine\n"
    "  longhaul lab build --patch faster.patch --name faster\n"
    "  longhaul lab build --cc-source mine.c"
)
@with_option
@kernel_option
@build_options
@json_option
def build(packages: str | None, kernel_config: str | None, as_json: bool, **given: Any) -> None:
    """Build the kernel and the root image, both at the same time.

    Builds only what is missing. The first build takes about four minutes on two CPUs. Packages form a layer of their
    own, one for each set. With --kernel, --patch, --config or --cc-source it builds a kernel of yours; the next one of
    the same source compiles only what changed.
    """
    from emulator.lab import boot

    reader = boot_options.Reader()
    choice = lab_root.read(reader, packages, None, host=False, kernel_config=kernel_config)
    own = build_own(choice, given, reader, build_progress)
    choice = replace(choice, kernel=own.folder.name) if own else choice
    with build_progress() as progress:
        root = boot.built(progress, choice)
    facts: dict[str, object] = {"kernel": str(root.linux), "image": str(root.image)}
    if root.layer:
        facts |= lab_facts.of_layer(root.layer.parent)
    if own:
        facts |= kernel_options.facts(own)
    if as_json:
        click.echo(json.dumps(facts))
        return
    click.echo(f"{root.linux}\n{root.image}")
    if own:
        controls = " ".join(own.record.congestion_controls)
        click.echo(f"{', '.join(own.names)}: Linux {own.record.version}, {own.record.mode}, {controls}")
    if root.layer:
        click.echo(f"{root.layer}\n{lab_facts.packages_text(facts)}")


@lab.command(epilog="\b\nExamples:\n  longhaul lab info\n  longhaul lab info --json")
@json_option
def info(as_json: bool) -> None:
    """Show whether the lab can run here.

    Also shows where its kernel and image are, and their sizes.
    """
    from emulator.lab import boundary, build_cache, build_image, build_kernel, build_layer, landlock, runtime

    version = landlock.abi()
    linux, root = build_kernel.place() / "linux", build_image.place() / "root"
    facts = {
        "cache": str(build_cache.folder()),
        "kernel": str(linux),
        "kernel_bytes": linux.stat().st_size if linux.exists() else None,
        "kernel_source": build_kernel.source_version() or None,
        "image": str(root),
        "image_bytes": _size(root) if root.exists() else None,
        "why_not": runtime.why_not(),
        "full_kernel": _if_there(build_kernel.place(build_kernel.FULL) / "linux"),
        "layers": [lab_facts.of_layer(folder) for folder in build_layer.built()],
        "landlock": version,
        "weaknesses": boundary.weaknesses(version),
    }
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for name, size in (("kernel", facts["kernel_bytes"]), ("image", facts["image_bytes"])):
        state = f"{size / 2**20:.0f} MiB" if isinstance(size, int) else "not built yet: longhaul lab build"
        source = build_kernel.source_version() if name == "kernel" and isinstance(size, int) else ""
        click.echo(f"{name:8}{facts[name]}  ({state}{f', from {build_kernel.PACKAGE} {source}' * bool(source)})")
    if facts["full_kernel"]:
        click.echo(f"full    {facts['full_kernel']}  (kernel)")
    for layer in build_layer.built():
        click.echo(f"layer   {layer}  ({lab_facts.packages_text(lab_facts.of_layer(layer))})")
    if other := build_kernel.other_source():
        click.echo(f"note: {other}")
    reasons = runtime.why_not()
    click.echo("runs here" if not reasons else "cannot run here: " + "; ".join(reasons))
    weak = boundary.weaknesses(version)
    click.echo(
        "not closed off: " + "; ".join(weak) if weak else f"closed off from the host's files by Landlock {version}"
    )


@lab.command(
    context_settings={"ignore_unknown_options": False},
    epilog="\b\nExamples:\n"
    "  longhaul lab run -- ip link\n"
    "  longhaul lab run --with rsync -- rsync --version\n"
    "  longhaul lab run --host-root -- curl --version\n"
    "  longhaul lab run --seed 7 --timeout 10min -- python3 -m pytest tests/lab",
)
@clock_option
@click.option("--real-time", is_flag=True, help="Use the host's clock; measurements are then not exact.")
@click.option("--mem", default="8G", show_default=True, metavar="SIZE", help=MEMORY_HELP)
@click.option("--seed", default="1", show_default=True, metavar="N", help="Seed of all the guest's random numbers.")
@click.option("--timeout", metavar="TIME", help="End the command after this wall-clock time; exit code 124.")
@click.option(
    "--start-date",
    metavar="DATE",
    help=f"The start of the virtual clock, 1970 to 2199; UTC without an offset.  [default: {START}]",
)
@click.option(
    "--stall",
    metavar="TIME",
    help="End the command, with exit code 125, when the virtual clock stands still for this much CPU time. Bare "
    "numbers are seconds.  [default: 120]",
)
@click.option(
    "--pcap",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write the frames of all lanes to DIR, a folder below the current one (see 'longhaul capture').",
)
@snap_option(0)
@root_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    clock: str | None, real_time: bool, mem: str, seed: str, timeout: str | None, start_date: str | None,
    stall: str | None, pcap: str | None, snap_bytes: int, command: tuple[str, ...], **roots: Any,
) -> None:  # fmt: skip
    """Run COMMAND as root in the lab. It can read and write the current folder; the exit code is COMMAND's. Its
    standard input is empty.

    The programs are those of the lab's image, unless --with, --root or --host-root says otherwise.
    """
    from emulator.lab import boot

    reader = boot_options.Reader()
    memory_bytes = reader.read("--mem", boot_options.parse_memory_bytes, mem)
    number = reader.read("--seed", boot_options.parse_seed, seed)
    timeout_s = reader.read("--timeout", boot_options.parse_timeout_s, timeout)
    start_ns = reader.read("--start-date", boot_options.parse_start_ns, start_date)
    stall_cpu_s = reader.read("--stall", boot_options.parse_stall_s, stall)
    if real_time:
        virtual = {"--start-date": start_date, "--stall": stall, "--clock": clock}
        reader.refuse(virtual, "it is for the virtual clock: omit --real-time")
    choice = chosen(roots, reader)
    if not command[0]:
        reader.mistakes.append(Mistake("COMMAND", "", boot_options.NO_COMMAND))
    folder = reader.folder()
    reader.finish()
    warn(choice)
    options = BootOptions(
        folder,
        real_time=real_time,
        counted=clock == COUNTED,
        memory_bytes=memory_bytes or boot_options.MEMORY_BYTES,
        seed=boot_options.SEED if number is None else number,
        timeout_s=timeout_s,
        start_ns=boot_options.START_NS if start_ns is None else start_ns,
        stall_cpu_s=stall_cpu_s or boot_options.STALL_CPU_S,
    )
    with build_progress() as progress:
        code = boot.run(command if pcap is None else _captured(command, pcap, snap_bytes), options, choice, progress)
    sys.exit(code)


@lab.command(epilog="\b\nExample:\n  longhaul lab shell")
@click.option("--mem", default="8G", show_default=True, metavar="SIZE", help=MEMORY_HELP)
@root_options
def shell(mem: str, **roots: Any) -> None:
    """Open an interactive shell in the lab, in real time."""
    from emulator.lab import boot

    reader = boot_options.Reader()
    memory_bytes = reader.read("--mem", boot_options.parse_memory_bytes, mem)
    choice = chosen(roots, reader)
    folder = reader.folder()
    reader.finish()
    assert memory_bytes
    assert folder
    warn(choice)
    with build_progress() as progress:
        root = boot.built(progress, choice)
    sys.exit(boot.shell(folder, root, memory_bytes))


lab.add_command(kernel_options.kernels)


def _captured(command: tuple[str, ...], folder: str, snap_bytes: int) -> list[str]:
    """The command inside `longhaul capture`."""
    place, here = Path(folder).resolve(), Path.cwd().resolve()
    if not place.is_relative_to(here):
        raise click.BadParameter(
            f"{folder!r} is outside the current folder, where the lab cannot write", param_hint="--pcap"
        )
    return ["longhaul", "capture", str(place), "--snap", str(snap_bytes), "--", *command]


def _if_there(path: Path) -> str | None:
    return str(path) if path.exists() else None


def _size(root: Path) -> int:
    return sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
