"""The options of a sweep's program, and the program of the options and the topology file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from emulator import units
from emulator.cli.options import TIME, Quantity
from emulator.errors import InputError, Mistake
from emulator.model import program
from emulator.model.program import DEFAULT_RUNS, MOST_RUNS, Program, ProgramError, Ready

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = {
    "server": "--server", "ready": "--ready", "client": "--client", "prepare": "--prepare", "bytes": "--bytes",
    "repeat": "--repeat", "timeout_ns": "--time-limit",
}  # fmt: skip
"""The options, by the settings of `Program`."""
_KEYS = {"timeout_ns": "timeout"}
"""What a topology file calls a setting."""


def program_options(command: F) -> F:
    """The options, in the order in which they are used."""
    given: tuple[tuple[str, Any, str, str], ...] = (
        ("server", str, "COMMAND", "Run this program at the far end, in the foreground, in every cell."),
        ("ready", Quantity("WHEN", Ready.parse), "WHEN", "The server is ready: tcp:PORT, file:PATH, output:REGEX, "
         "after:TIME."),
        ("client", str, "COMMAND", "Measure this program instead of streams, from its start to its end; {server} is "
         "the server's address."),
        ("prepare", str, "COMMAND", "Run this once in the server's folder before the server."),
        ("bytes", Quantity("SIZE", units.parse_size_bytes), "SIZE", "The payload that the program must carry.  "
         "[default: what TCP carried]"),
        ("repeat", click.IntRange(1, MOST_RUNS), "N", f"Runs of the client in each cell.  [default: {DEFAULT_RUNS}]"),
        ("timeout_ns", TIME, "TIME", "The longest time of a client's run.  [default: 10min]"),
    )  # fmt: skip
    for key, kind, metavar, text in reversed(given):
        command = click.option(OPTIONS[key], key, type=kind, metavar=metavar, help=text)(command)
    return command


def program_of(section: Mapping[str, Any], given: Mapping[str, Any], lines: Mapping[str, str]) -> Program | None:
    """The program of the options and, for what they do not name, of the file; None when neither names any.

    Raises InputError with every mistake, each at its option or its line.
    """
    options = {key: given[key] for key in OPTIONS if given[key] is not None}
    settings = {**section.get("workload", {}), **options}
    if not settings:
        return None
    try:
        return program.of_settings(settings)
    except ProgramError as error:
        raise InputError([_mistake(key, text, options, lines) for key, text in error.mistakes]) from None


def _mistake(key: str, text: str, options: Mapping[str, Any], lines: Mapping[str, str]) -> Mistake:
    """A mistake at the option that was given, at the file's line, or at the option that is missing."""
    setting = next((setting for setting, name in _KEYS.items() if name == key), key)
    if setting in options or "workload" not in lines:
        return Mistake(OPTIONS.get(setting, "sweep"), "", text)
    return Mistake(lines.get(f"workload.{key}", lines["workload"]), f"sweep.workload.{key}", text)
