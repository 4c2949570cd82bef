"""The options of a sweep's groups of flows, and the contests of the options and the topology file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from emulator.cli.program_options import OPTIONS as OF_A_PROGRAM
from emulator.cli.request_options import KEYS as OF_REQUESTS
from emulator.cli.types import noted
from emulator.errors import InputError, Mistake, no_such
from emulator.model import flow_group
from emulator.model.flow_group import Contest
from emulator.model.sweep_axes import BY_KEY

F = TypeVar("F", bound=Callable[..., Any])
AGAINST, PAIRS = "--against", "--pairs"


class ContestType(click.ParamType[Any]):
    """Groups of flows with commas between them; it records mistakes, as an axis does."""

    name = "GROUP,..."

    def __init__(self, read: Callable[[str], Sequence[Contest]]) -> None:
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The contests of the text; none when a mistake was recorded."""
        assert param
        assert ctx
        try:
            return self._read(value)
        except ValueError as error:
            noted(ctx).append(Mistake(param.opts[0], "", str(error)))
            return ()


def _one(text: str) -> Sequence[Contest]:
    return (Contest.parse(text),)


def _pairs(text: str) -> Sequence[Contest]:
    return flow_group.pairs(part.strip() for part in text.split(","))


def against_options(command: F) -> F:
    """The options, in the order in which they are used."""
    command = click.option(
        PAIRS, "pairs", type=ContestType(_pairs), metavar="CC,...",
        help="Flows against flows instead of streams: every pair of these congestion controls, one flow each.",
    )(command)  # fmt: skip
    return click.option(
        AGAINST, "against", type=ContestType(_one), metavar="GROUP,...", multiple=True,
        help="Flows against flows instead of streams, such as cubic:1,bbr:1: the groups that share the lane, each "
        "CC:N and settings (start=5s, stop=20s, rtt=346ms; bytes=100KiB, think=1s, keep for transfers). "
        "Give it again for more.",
    )(command)  # fmt: skip


def contests_of(section: Mapping[str, Any], given: Mapping[str, Any], lines: Mapping[str, str]) -> tuple[Contest, ...]:
    """The contests of the options, else of the file, and each of their groups alone; empty when neither has any.

    Raises InputError, also when a program or requests are named too.
    """
    of_options = [*(one for each in given["against"] for one in each), *(given["pairs"] or ())]
    workload = section.get("workload", {})
    of_file = [*workload.get("against", ()), *flow_group.pairs(workload.get("pairs", ()))]
    if not of_options and not of_file:
        return ()
    where = Mistake(AGAINST if given["against"] else PAIRS, "", "")
    if not of_options:
        key = "workload.against" if workload.get("against") else "workload.pairs"
        where = Mistake(lines[key], f"sweep.{key}", "")
    others = [OF_A_PROGRAM[key] for key in OF_A_PROGRAM if given[key] is not None]
    others += [BY_KEY[key].option for key in OF_REQUESTS if given[key] is not None]
    others += [f"workload.{key}" for key in workload if key not in ("against", "pairs") and not of_options]
    if others:
        text = f"a cell runs groups of flows or something else, and {others[0]} is there too: use one of them"
        raise InputError([Mistake(where.where, where.path, text)])
    try:
        return flow_group.with_each_alone(of_options or of_file)
    except ValueError as error:
        raise InputError([Mistake(where.where, where.path, str(error))]) from None


def check_controls(contests: Sequence[Contest], algorithms: Sequence[str] | None, given: Mapping[str, Any]) -> None:
    """Raise InputError when the kernel lacks a congestion control of a group; None: the kernel is not known."""
    where = AGAINST if given["against"] else PAIRS if given["pairs"] else "sweep"
    names = dict.fromkeys(group.congestion_control for contest in contests for group in contest.groups)
    if algorithms is not None and (unknown := [name for name in names if name not in algorithms]):
        raise InputError([Mistake(where, "", no_such("congestion control", name, algorithms)) for name in unknown])
