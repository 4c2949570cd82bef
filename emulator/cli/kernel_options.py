"""The options that choose or make the kernel of a lab, and `longhaul lab kernels`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from emulator.cli.complete import kernel_names
from emulator.cli.output import emit_table, json_option
from emulator.lab.boot_options import Reader

if TYPE_CHECKING:
    from emulator.lab.kernel_store import StoredKernel
    from emulator.lab.lab_root import RootChoice

F = TypeVar("F", bound=Callable[..., Any])
KERNEL_HELP = (
    "A kernel of yours: its name (lab kernels), a series of Debian's such as 6.12, or Linux' source: a folder, a "
    "commit (FOLDER@REV) or an archive. What is not built is built first."
)
SEVERAL_HELP = (
    "Kernels to measure every cell on: names (lab kernels), series of Debian's such as 6.12, or Linux' source: "
    "folders, commits (FOLDER@REV) or archives. What is not built is built first."
)
SOURCE_HELP = "Build the congestion control of this C file into the kernel. Repeat it for several files."


def own_kernel_options(command: F, *, several: bool = False) -> F:
    """The options --kernel and --cc-source; with `several` kernels with commas between them."""
    command = click.option(
        "--cc-source", "cc_sources", multiple=True, metavar="FILE.c", type=click.Path(), help=SOURCE_HELP
    )(command)
    metavar, text = ("KERNEL,...", SEVERAL_HELP) if several else ("KERNEL", KERNEL_HELP)
    return click.option("--kernel", metavar=metavar, help=text, shell_complete=kernel_names)(command)


def build_options(command: F) -> F:
    """Besides them what only `lab build` has: --patch, --config and --name."""
    command = click.option("--name", metavar="NAME", help="What to call the kernel.  [default: made of what it is of]")(
        command
    )
    command = click.option(
        "--config", "fragments", multiple=True, metavar="FILE", type=click.Path(),
        help="Add this fragment (CONFIG_NAME=y) to the kernel's configuration. May be repeated.",
    )(command)  # fmt: skip
    command = click.option(
        "--patch", "patches", multiple=True, metavar="FILE", type=click.Path(),
        help="Apply this patch (-p1) to the kernel's source, after Longhaul's own. May be repeated.",
    )(command)  # fmt: skip
    return own_kernel_options(command)


def with_kernel(choice: RootChoice, given: dict[str, Any], reader: Reader) -> RootChoice:
    """The choice with the kernel of these options, which it takes out of `given`. `reader` keeps the mistakes."""
    text, files = given.pop("kernel", None), given.pop("cc_sources", ())
    if text is None and not files:
        return choice
    from emulator.lab import kernel_choice

    several = reader.read("--kernel", kernel_choice.parse_kernels, text) if text and "," in text else None
    kernel = "" if text and "," in text else reader.read("--kernel", kernel_choice.parse_kernel, text) or ""
    sources = [path for file in files if (path := reader.read("--cc-source", kernel_choice.parse_source, file))]
    if sources and len(sources) == len(files):
        reader.read("--cc-source", kernel_choice.check_names, "\n".join(sources))
    return replace(choice, kernel=kernel, cc_sources=tuple(sources), kernels=several or ())


def congestion_controls(choice: RootChoice, standard: Sequence[str]) -> tuple[str, ...]:
    """The congestion controls that every kernel of this choice has; `standard` are those of Longhaul's own."""
    if not (choice.kernel or choice.kernels or choice.cc_sources):
        return tuple(standard)
    from emulator.lab import kernel_choice

    return kernel_choice.congestion_controls(choice, standard)


def build_own(
    choice: RootChoice, given: dict[str, Any], reader: Reader, progress: Callable[[], Any]
) -> StoredKernel | None:
    """Build the kernel that these options ask for and return it; None when they ask for none. Raises InputError."""
    from emulator.lab import boot, build, kernel_choice, kernel_store

    texts = {"--patch": given.pop("patches"), "--config": given.pop("fragments")}
    called = reader.read("--name", kernel_store.check_name, given.pop("name"))
    patches = _files(reader, "--patch", kernel_choice.parse_patch, texts["--patch"])
    fragments = _files(reader, "--config", kernel_choice.parse_fragment, texts["--config"])
    choice = with_kernel(choice, given, reader)
    reader.finish()
    if not (choice.kernel or choice.cc_sources or patches or fragments or called):
        return None
    asked = kernel_choice.request(choice, patches, fragments)
    with progress() as shown:
        id = kernel_choice.built(asked, called or "", shown, build.checker(choice, shown, boot.script))
    return next((one for one in kernel_store.every() if one.folder.name == id), None) if id else None


def _files(reader: Reader, option: str, parse: Callable[[str], Path], texts: Sequence[str]) -> tuple[Path, ...]:
    return tuple(path for text in texts if (path := reader.read(option, parse, text)))


@click.command(epilog="\b\nExamples:\n  longhaul lab kernels\n  longhaul lab kernels --json")
@json_option
def kernels(as_json: bool) -> None:
    """List the kernels that are built here: names, version, source, mode, size and when each was built.

    The kernel marked with * is the one that a lab boots when no other is named.
    """
    from emulator.lab import kernel_store

    found = kernel_store.every()
    if as_json:
        click.echo(json.dumps([facts(kernel) for kernel in found], indent=2))
        return
    if not found:
        click.echo("no kernel is built yet: longhaul lab build")
        return
    header = ("name", "Linux", "source", "mode", "congestion controls", "MiB", "built (UTC)")
    emit_table(header, [_row(kernel) for kernel in found], left=("name", "source", "mode", "congestion controls"))


def _row(kernel: StoredKernel) -> tuple[str, ...]:
    record = kernel.record
    name = ", ".join(kernel.names) or kernel.folder.name
    source = f"{record.source} {record.package_version}".rstrip()
    size, built = f"{kernel.bytes / 2**20:.1f}", kernel.built.partition("+")[0].replace("T", " ")
    controls = " ".join(record.congestion_controls)
    return (f"{name} *" if kernel.default else name, record.version, source, record.mode, controls, size, built)


def facts(kernel: StoredKernel) -> dict[str, object]:
    """All that is known of a kernel, for --json."""
    from emulator.system import struct_json

    own = {
        "names": list(kernel.names), "id": kernel.folder.name, "linux": str(kernel.folder / "linux"),
        "bytes": kernel.bytes, "built": kernel.built, "default": kernel.default,
    }  # fmt: skip
    return {**own, **struct_json.to_plain(kernel.record)}
