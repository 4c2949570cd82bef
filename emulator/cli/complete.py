"""Shell completion of names: lanes, kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from emulator.model.topology import Topology


def lane_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The lanes of the topology file on the command line, else of the active topology; none without either."""
    from emulator.config import loader
    from emulator.errors import LonghaulError

    with contextlib.suppress(LonghaulError, OSError):
        # click has not separated the arguments yet when an option still waits for its value.
        rest = ctx.args if param.param_type_name == "option" else []
        file = ctx.params.get("topology") or next(iter(rest), None)
        topology = loader.load(file) if file else _up(ctx)
        names = topology.sites if topology else ()
        if param.param_type_name == "option":
            return _listed(names, incomplete)
        taken = ctx.params.get("lanes") or ()
        return [name for name in names if name.startswith(incomplete) and name not in taken]
    return []


def kernel_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The kernels that are built here."""
    from emulator.lab import build_kernel, kernel_store

    return _listed([build_kernel.STANDARD, *kernel_store.names()], incomplete)


def _listed(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that a list may go on with after its last comma."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in taken]


def _up(ctx: click.Context) -> Topology | None:
    """The requested topology, read from the disk alone: completion does not need the kernel's state."""
    from emulator.control.intent_store import IntentStore
    from emulator.system.state_dir import state_dir

    if ctx.obj is not None:
        handed_in: Topology | None = ctx.obj.topology()
        return handed_in
    return IntentStore(state_dir()).read().topology
