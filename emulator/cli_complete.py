"""What the shell completes: the names of lanes."""

from __future__ import annotations

import contextlib

import click


def lane_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The lanes of the topology file on the command line, else of what is up; none when there is neither."""
    from emulator import topologyfile
    from emulator.desire import Store
    from emulator.errors import LonghaulError
    from emulator.paths import state_dir

    with contextlib.suppress(LonghaulError, OSError):
        # After an option that waits for its value click has not told the arguments apart yet.
        rest = ctx.args if param.param_type_name == "option" else []
        file = ctx.params.get("topology") or next(iter(rest), None)
        topology = topologyfile.load(file) if file else Store(state_dir()).read().topology
        taken = ctx.params.get("lanes") or ()
        names = topology.sites if topology else ()
        return [name for name in names if name.startswith(incomplete) and name not in taken]
    return []
