"""Option types of the measuring commands: axes and quantities; and the progress bar."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from emulator import units
from emulator.cli.options import Quantity
from emulator.errors import Mistake
from emulator.model import run_name, sweep_axes
from emulator.model.sweep_axes import LEAST_RATE_BPS


class Axis(click.ParamType[Any]):
    """A comma-separated list of an axis' values, or a single value for an option that takes one.

    It records mistakes, so that one run reports all mistakes of a command line: see `noted`.
    """

    def __init__(self, key: str, metavar: str) -> None:
        self.name, self._key, self._single = metavar, key, sweep_axes.BY_KEY[key].single
        self._read = _axis_rtt_ns if key == "rtt" else partial(sweep_axes.parse, key)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A tuple of values, or the single one; nothing when a mistake was recorded."""
        assert param
        assert ctx
        try:
            return (
                self._read(value)
                if self._single
                else sweep_axes.parse_all(sweep_axes.split(self._key, value), self._read)
            )
        except ValueError as error:
            noted(ctx).append(Mistake(param.opts[0], "", str(error)))
            return None if self._single else ()


def noted(ctx: click.Context) -> list[Mistake]:
    """The recorded mistakes of this command line."""
    mistakes: list[Mistake] = ctx.meta.setdefault(f"{__name__}.mistakes", [])
    return mistakes


def _in_ms(text: str) -> str:
    """Append the unit to a bare number."""
    return f"{text}ms" if text.replace(".", "", 1).isdigit() else text


def _rtt_ns(text: str) -> int:
    return units.parse_duration_ns(_in_ms(text))


def _axis_rtt_ns(text: str) -> int:
    return int(sweep_axes.parse("rtt", _in_ms(text)))


def _window_bytes(text: str) -> int:
    size_bytes = units.parse_size_bytes(text)
    if not size_bytes:
        raise ValueError("a window of 0 lets no data through")
    return size_bytes


def _rate_bps(text: str) -> int:
    rate_bps = units.parse_rate_bps(text)
    if rate_bps < LEAST_RATE_BPS:
        raise ValueError(f"{text!r} is below one byte a second")
    return rate_bps


RATE = Quantity("RATE", _rate_bps)
RTT = Quantity("RTT", _rtt_ns)
SECONDS = Quantity("TIME", partial(sweep_axes.parse, "duration"))
ADDRESS = Quantity("ADDRESS", lambda text: str(ipaddress.IPv4Address(text)))
SIZE = Quantity("SIZE", _window_bytes)
RUN_NAME = Quantity("NAME", run_name.parse)


@contextmanager
def progress(total: float, what: str) -> Iterator[Callable[[float, str], None]]:
    """A progress bar with the time left on stderr; without a terminal, one line for each finished item."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(by: float, text: str) -> None:
            bar.advance(task, by)
            if not console.is_terminal:
                click.echo(text, err=True)

        yield advance
