"""The options that choose where the programs of a lab come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from emulator.cli.kernel_options import own_kernel_options, with_kernel
from emulator.lab import lab_root, landlock
from emulator.lab.boot_options import Reader

if TYPE_CHECKING:
    from emulator.lab.lab_root import RootChoice

F = TypeVar("F", bound=Callable[..., Any])

WITH_HELP = "Debian packages on top of the lab's image, with what they depend on."
KERNEL_HELP = (
    "full adds WireGuard, nf_tables, MPTCP, NFS and FUSE.  [default: standard; full for packages that need it]"
)


CLOCKS = NETWORK, COUNTED = "network", "counted"
CLOCK_HELP = (
    "network: computing takes no time, and a run repeats to the byte. counted: computing takes as long as on this "
    "machine, which must be idle."
)


def clock_option(command: F) -> F:
    """The option --clock."""
    kind = click.Choice(CLOCKS)
    return click.option("--clock", type=kind, help=f"What takes time in the lab. {CLOCK_HELP}  [default: network]")(
        command
    )


def with_option(command: F) -> F:
    """The option --with."""
    return click.option("--with", "packages", metavar="PACKAGE,...", help=WITH_HELP)(command)


def kernel_option(command: F) -> F:
    """The option --kernel-config."""
    choice = click.Choice(lab_root.CONFIGS)
    return click.option("--kernel-config", type=choice, help=f"The lab's kernel: {KERNEL_HELP}")(command)


def root_options(command: F, *, kernels: bool = False) -> F:
    """All of them: --with, --root, --host-root, --kernel, --cc-source and --kernel-config.

    With `kernels` --kernel takes several.
    """
    command = own_kernel_options(kernel_option(command), several=kernels)
    command = click.option(
        "--host-root", is_flag=True, help="This machine's own programs, seen read-only; needs no image."
    )(command)
    command = click.option(
        "--root",
        "root_folder",
        type=click.Path(),
        metavar="DIR",
        help="The programs of another root file system, seen read-only: an exported container, a debootstrap tree.",
    )(command)
    return with_option(command)


def project_option(command: F) -> F:
    """The option --project."""
    return click.option(
        "--project", metavar="DIR", help="A folder that the programs in the lab may read, under its own name: $PROJECT."
    )(command)


def chosen(given: dict[str, Any], reader: Reader) -> RootChoice:
    """The choice of these options, which it takes out of `given`. `reader` keeps the mistakes."""
    choice = lab_root.read(
        reader, given.pop("packages"), given.pop("root_folder"), given.pop("host_root"), given.pop("kernel_config")
    )
    choice = with_kernel(choice, given, reader)
    project = reader.read("--project", lab_root.parse_project, given.pop("project", None))
    return replace(choice, project=project or "")


def warn(choice: RootChoice) -> None:
    """Say on stderr that this machine cannot close its own root off, where that is so."""
    if choice.host and not landlock.abi():
        click.echo(
            "note: this kernel has no Landlock: with --host-root a program in the lab can also change every file that "
            "you can",
            err=True,
        )
