"""The cells of a sweep, from the topology file's section and the options, which take precedence."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from msgspec.structs import replace

from emulator.cli import kernel_options, root_options
from emulator.cli.against_options import check_controls, contests_of
from emulator.cli.complete import lane_names
from emulator.cli.impairment_options import renamed
from emulator.cli.options import appliance_of
from emulator.cli.program_options import program_of
from emulator.cli.request_options import requests_of
from emulator.cli.types import Axis, noted
from emulator.errors import InputError, Mistake
from emulator.lab.boot_options import Reader
from emulator.model.sweep_axes import AXES, BY_KEY, OLD_WORDS, SweepAxis

if TYPE_CHECKING:
    from emulator.experiment.run_folder import Asked
    from emulator.lab.lab_root import RootChoice
    from emulator.model.sweep_axes import Axes
    from emulator.model.tcp_profile import Profile
    from emulator.model.topology import Topology

FOR_THE_LAB = "it is for the lab: add --in-lab"
F = TypeVar("F", bound=Callable[..., Any])


def axis_options(command: F, *, of_one_cell: bool = False) -> F:
    """An option for every axis, in the table's order, and the hidden old options that stand for them.

    `of_one_cell`: what the user does not name makes a single cell.
    """
    for old, new in OLD_WORDS.items():
        command = old_option(old, new, Axis(new, BY_KEY[new].metavar))(command)
    for axis in reversed(AXES):
        command = click.option(
            axis.option, axis.key, type=Axis(axis.key, axis.metavar), help=_help(axis, of_one_cell=of_one_cell),
            shell_complete=lane_names if axis.key == "lane" else None,
        )(command)  # fmt: skip
    return command


def old_option(old: str, new: str, kind: click.ParamType[Any]) -> Callable[[F], F]:
    """A hidden old option that stands for the option of the key `new`, with a hint; giving both is an error."""

    def decorate(command: F) -> F:
        @wraps(command)
        def renewed(*args: Any, **given: Any) -> Any:
            value = given.pop(f"old_{new}")
            if value is not None:
                renamed(old, new.replace("_", "-"), both=given[new] is not None)
                given[new] = value
            return command(*args, **given)

        return click.option(f"--{old}", f"old_{new}", type=kind, hidden=True)(cast("F", renewed))

    return decorate


def _help(axis: SweepAxis, *, of_one_cell: bool) -> str:
    bare = " Bare numbers are ms." if axis.key == "rtt" else ""
    default = axis.default_of_a_request if of_one_cell and axis.key == "tcp_profile" else axis.default
    return f"{axis.help}{bare}  [default: {default}]"


def asked_for(ctx: click.Context, given: dict[str, Any], *, of_one_cell: bool = False) -> tuple[Topology, Asked]:
    """The topology and the cells. Raises InputError with every mistake of the options, the file and the two together.

    Every mistake names its place: the option, or the line of the file. `of_one_cell`: where no TCP profile
    is named, one cell has the kernel's own settings.
    """
    from emulator.analysis import statistics
    from emulator.config import loader
    from emulator.experiment import grid, lab_programs
    from emulator.experiment.run_folder import Asked
    from emulator.hosts import tcp_profiles
    from emulator.hosts.flows.workload import FlowsWorkload
    from emulator.hosts.requests.workload import RequestsWorkload
    from emulator.hosts.tools import workloads
    from emulator.hosts.tools.program import ProgramWorkload
    from emulator.hosts.tools.workload import Workload

    reader = Reader()
    choice = root_options.chosen(given, reader)
    if choice.asked and not given["in_lab"]:
        reader.mistakes.append(Mistake(choice.asked, "", FOR_THE_LAB))
    if given["clock"] and not given["in_lab"]:
        reader.mistakes.append(Mistake("--clock", "", FOR_THE_LAB))
    with _beside([*noted(ctx), *reader.mistakes]):
        file = given["topology"]
        base = loader.load(file) if file else None
        hints: list[str] = []
        section, lines = loader.load_sweep(file, hints) if file else ({}, {})
        for text in hints:
            click.echo(text, err=True)
        contests = contests_of(section, given, lines)
        requests = [] if contests else requests_of(section, given, lines)
        program = None if contests or requests else program_of(section, given, lines)
        section.pop("workload", None)
        usual = 1 if program else statistics.LEAST_REPEATS if contests else statistics.MOST_REPEATS
        most_repeats = given["repeats"] or section.pop("repeats", usual)
        axes = _axes(section, given)
        axes = grid.for_flows(axes) if contests else grid.for_one_cell(axes) if of_one_cell else axes
        base = base or _without_file(ctx, given, axes)
        if given["seed"] is not None:
            base = replace(base, seed=given["seed"])
        placed = grid.placed(base, axes.lane, in_lab=given["in_lab"])
        known = tcp_profiles.load_profiles(given["profile_file"])
        named = [group.congestion_control for contest in contests for group in contest.groups]
        wanted = [*axes.cc, *named]
        algorithms = None if placed.hub_host else _algorithms(given, wanted, axes, known, choice)
        check_controls(contests, algorithms, given)
        one = ProgramWorkload(program) if program else workloads.STREAMS
        loads: tuple[Workload, ...] = (*map(RequestsWorkload, requests), *map(FlowsWorkload, contests))
        specs = grid.cells(placed, axes, known, _places(lines, given), algorithms, loads or (one,))
        names = [name for name, _ in choice.kernels] or [""]
        counted = given["clock"] == root_options.COUNTED
        specs = [replace(spec, counted=counted, kernel=name) for spec in specs for name in names]
        choice = lab_programs.with_packages(specs, choice) if given["in_lab"] else choice
    order_seed = secrets.randbelow(2**32) if given["order_seed"] is None else given["order_seed"]
    snap_bytes = given["snap_bytes"] if given["pcap"] else None
    return base, Asked(tuple(specs), given["in_lab"], most_repeats, order_seed, snap_bytes, choice)


@contextmanager
def _beside(mistakes: Sequence[Mistake]) -> Iterator[None]:
    """Raise the earlier mistakes and those of the block as one InputError."""
    try:
        yield
    except InputError as error:
        raise InputError([*mistakes, *error.mistakes]) from None
    if mistakes:
        raise InputError(mistakes)


def _places(lines: dict[str, str], given: dict[str, Any]) -> Callable[[str], tuple[str, str]]:
    """Where each axis was given: at its option, else at its line in the file."""
    from emulator.experiment.grid import by_option

    return lambda key: (lines[key], f"sweep.{key}") if key in lines and given[key] is None else by_option(key)


def _algorithms(
    given: dict[str, Any], wanted: Sequence[str], axes: Axes, known: Mapping[str, Profile], choice: RootChoice
) -> Sequence[str] | None:
    """The congestion controls of the kernel that measures, of which some are `wanted`; None in a dry run, which loads
    no kernel module."""
    from emulator.experiment.sweep_runner import LAB_ALGORITHMS
    from emulator.hosts.tools import machine_facts

    if given["in_lab"]:
        return kernel_options.congestion_controls(choice, LAB_ALGORITHMS)
    named = (known[name].congestion_control for name in axes.tcp_profile if name in known)
    return None if given["dry_run"] else machine_facts.algorithms([*wanted, *(name for name in named if name)])


def _axes(section: dict[str, Any], given: dict[str, Any]) -> Axes:
    from emulator.model.sweep_axes import Axes

    options = {key: given[key] for key in Axes.__struct_fields__ if given[key] is not None}
    return Axes(**(section | options))


def _without_file(ctx: click.Context, given: dict[str, Any], axes: Axes) -> Topology:
    """The topology to measure: the active one, or one plain lane for a list of RTTs."""
    from emulator.model.topology import Lane, Topology

    if axes.lane:
        present = appliance_of(ctx).topology()
        if present is None:
            raise InputError.single("nothing is up here: add a topology file", "--lane", axes.lane[0])
        return present
    if given["rtt"] is None:
        raise InputError.single(
            "there is nothing to measure: use a topology file, or RTTs such as --rtt 0,32,346", "sweep"
        )
    return Topology("sweep", "hub", (Lane("lane"),))
