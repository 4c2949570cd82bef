"""The options of a sweep's requests, and the loads of the options and the topology file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from emulator.cli.program_options import OPTIONS as OF_A_PROGRAM
from emulator.cli.types import Axis
from emulator.errors import InputError, Mistake
from emulator.model import request_load
from emulator.model.request_load import RequestLoad
from emulator.model.sweep_axes import REQUEST_AXES

F = TypeVar("F", bound=Callable[..., Any])
KEYS = tuple(axis.key for axis in REQUEST_AXES)


def request_options(command: F) -> F:
    """An option for every axis of requests, in the table's order."""
    for axis in reversed(REQUEST_AXES):
        text = f"Requests instead of streams: {axis.help[0].lower()}{axis.help[1:]}  [default: {axis.default}]"
        command = click.option(axis.option, axis.key, type=Axis(axis.key, axis.metavar), help=text)(command)
    return command


def requests_of(section: Mapping[str, Any], given: Mapping[str, Any], lines: Mapping[str, str]) -> list[RequestLoad]:
    """The loads of the options and, for what they do not name, of the file; empty when neither asks for requests.

    Raises InputError, also when a program is named too.
    """
    options = {key: given[key] for key in KEYS if given[key] is not None}
    of_file: Mapping[str, Any] | None = section.get("workload", {}).get("requests")
    if not options and of_file is None:
        return []
    others = {key for key in section.get("workload", {}) if key != "requests"}
    if of_file is not None and others:
        where = lines["workload.requests"], "sweep.workload.requests"
        raise InputError([Mistake(*where, f"beside requests there is a program ({min(others)}): use one of them")])
    where = (lines.get("workload.requests", ""), "sweep.workload.requests") if of_file is not None else ("sweep", "")
    if programs := [OF_A_PROGRAM[key] for key in OF_A_PROGRAM if given[key] is not None]:
        raise InputError([Mistake(programs[0], "", "a cell runs a program or requests: use one of them")])
    try:
        return list(request_load.loads({**(of_file or {}), **options}))
    except ValueError as error:
        raise InputError([Mistake(*where, str(error))]) from None
