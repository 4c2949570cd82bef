"""An option for every key of the table of impairments that a lane as a whole may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from emulator.cli.options import Quantity
from emulator.model.impairment_keys import KINDS, Key, shared_keys

F = TypeVar("F", bound=Callable[..., Any])
SWITCH = ["no", "yes"]
_OLD = "old_"


def impairment_options(command: F) -> F:
    """Add the options to a command; the value of each is a dict of the fields that it sets, or None. See `given`."""
    for key in reversed(shared_keys()):
        command = _option(key, f"--{key.name}", key.name, help=key.help)(command)
        if key.formerly:
            command = _option(key, f"--{key.formerly}", _OLD + key.name, hidden=True)(command)
    return command


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of Impairment that the options set, by name. An old option causes a hint on stderr.

    Raises UsageError when an option and its old name are both given.
    """
    fields: dict[str, Any] = {}
    for key in shared_keys():
        said, old = values[key.name], values.get(_OLD + key.name)
        if old is not None:
            renamed(key.formerly, key.name, both=said is not None)
        fields |= said or old or {}
    return fields


def renamed(old: str, new: str, *, both: bool) -> None:
    """Warn on stderr about an option's old name. Raises UsageError when both names were given."""
    if both:
        raise click.UsageError(f"--{old} is the old name of --{new}: give --{new} alone")
    click.echo(f"warning: --{old} is now called --{new}; the old name is read for this release only", err=True)


def _option(key: Key, flag: str, name: str, **reported: Any) -> Callable[[F], F]:
    words = [one.word for one in key.choices]

    def meaning(_ctx: click.Context, _param: click.Parameter, value: Any) -> dict[str, Any] | None:
        if value is None or isinstance(value, dict):
            return value
        return key.read(SWITCH[value] if isinstance(value, bool) else value)

    if words == SWITCH:
        return click.option(f"{flag}/--no-{flag[2:]}", name, default=None, callback=meaning, **reported)
    kind = click.Choice(words) if words else Quantity(KINDS[key.kind].metavar, key.read)
    return click.option(flag, name, type=kind, callback=meaning, **reported)
