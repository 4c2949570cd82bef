"""What several commands share: values with units, options, and the appliance that they control."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from emulator import units
from emulator.errors import InputError

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance
    from emulator.model.topology import Topology


class Quantity(click.ParamType):  # type: ignore[type-arg]
    """An option's value with a unit, read by a parser of `units`; `word` is one more allowed value and means 0 or
    {}."""

    def __init__(self, name: str, parse: Callable[[str], Any], word: str = "", meaning: object = None) -> None:
        self.name, self.parse, self.word, self.meaning = name, parse, word, meaning

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value in the model's unit."""
        if not isinstance(value, str):
            return value
        if self.word and value == self.word:
            return self.meaning
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


LARGEST_FRAME_BYTES = 65_535
F = TypeVar("F", bound=Callable[..., Any])
TIME = Quantity("TIME", units.parse_duration_ns)
PROBABILITY = Quantity("PROBABILITY", units.parse_probability_p32)


dry_run_option = click.option("--dry-run", is_flag=True, help="Show the commands and change nothing.")
confirm_option = click.option(
    "--confirm", "confirm_ns", type=TIME, help="Revert after this time unless 'longhaul confirm' comes first."
)


def snap_option(default: int) -> Callable[[F], F]:
    """The option --snap of everything that captures frames."""
    usual = f"{default} by default, 0 for all" if default else "all by default"
    size, text = click.IntRange(0, LARGEST_FRAME_BYTES), f"How many bytes of each frame to keep: {usual}."
    return click.option("--snap", "snap_bytes", type=size, default=default, metavar="BYTES", help=text)


def appliance_of(ctx: click.Context, command: str | None = None) -> Appliance:
    """The appliance passed to `main`, or this machine's own; the history shows `command`."""
    if ctx.obj is not None:
        return cast("Appliance", ctx.obj)
    from emulator.control.local import local

    appliance = local(command=command)
    ctx.call_on_close(appliance.close)
    return appliance


NOTHING_UP = "nothing is up: longhaul up FILE"


def need_up(topology: Topology | None, where: str = "", path: str = "", or_else: str = "") -> Topology:
    """The topology that is up. Without one raises InputError at `where` and `path`; `or_else` is a further cure."""
    if topology is None:
        raise InputError.single(NOTHING_UP + or_else, where, path)
    return topology


def confirm_s(ctx: click.Context, confirm_ns: int | None, dry_run: bool) -> float | None:
    """The time to confirm in, in s. Raises UsageError for an invalid combination."""
    if confirm_ns is None:
        return None
    from emulator.control.intent_store import LONGEST_CONFIRM_S, SHORTEST_CONFIRM_S

    if dry_run or not SHORTEST_CONFIRM_S <= confirm_ns / 1e9 <= LONGEST_CONFIRM_S:
        raise click.UsageError("--confirm needs 1s to 24h, and excludes --dry-run", ctx)
    return confirm_ns / 1e9


def until_confirmed(confirm_ns: int | None) -> str:
    """The addition to a summary when the change waits for confirmation."""
    if confirm_ns is None:
        return ""
    return f"; reverts in {units.format_duration(confirm_ns)} unless you run: longhaul confirm"
