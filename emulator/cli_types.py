"""What options of the measuring commands read: lists, quantities; and the progress bar."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from emulator import units
from emulator.cli_options import Quantity

LEAST_RATE_BPS = 8


class Listed(click.ParamType[list[Any]]):
    """A list separated by commas, each item read by one function."""

    name = "list"

    def __init__(self, parse: Callable[[str], Any], metavar: str) -> None:
        self.parse, self.name = parse, metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A tuple of values; none may be missing between two commas."""
        if not isinstance(value, str):
            return value
        try:
            return tuple(self.parse(item.strip()) for item in value.split(","))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _rtt_ns(text: str) -> int:
    """A duration; a bare number is in ms."""
    return units.parse_duration_ns(f"{text}ms" if text.replace(".", "", 1).isdigit() else text)


def _word(text: str) -> str:
    if not text:
        raise ValueError("a name was expected between the commas")
    return text


def _positive(text: str) -> int:
    number = units.parse_count(text)
    if not number:
        raise ValueError("0 is too few")
    return number


def _window_bytes(text: str) -> int:
    size_bytes = units.parse_size_bytes(text)
    if not size_bytes:
        raise ValueError("a window of 0 lets nothing through")
    return size_bytes


def _rate_bps(text: str) -> int:
    rate_bps = units.parse_rate_bps(text)
    if rate_bps < LEAST_RATE_BPS:
        raise ValueError(f"{text!r} is below one byte a second")
    return rate_bps


def _whole_seconds(text: str) -> int:
    """A duration; a bare number is in s."""
    duration_ns = units.parse_duration_ns(f"{text}s" if text.isdigit() else text)
    if not duration_ns or duration_ns % 10**9:
        raise ValueError(f"{text!r} is not understood: whole seconds were expected, such as 30s")
    return duration_ns // 10**9


RTTS = Listed(_rtt_ns, "RTT,...")
WORDS = Listed(_word, "NAME,...")
COUNTS = Listed(_positive, "N,...")
RATES = Listed(_rate_bps, "RATE,...")
SIZES = Listed(_window_bytes, "SIZE,...")
LOSSES = Listed(units.parse_probability_p32, "LOSS,...")
RATE = Quantity("RATE", _rate_bps)
RTT = Quantity("RTT", _rtt_ns)
SECONDS = Quantity("TIME", _whole_seconds)
ADDRESS = Quantity("ADDRESS", lambda text: str(ipaddress.IPv4Address(text)))
SIZE = Quantity("SIZE", _window_bytes)


@contextmanager
def progress(total: float, what: str) -> Iterator[Callable[[float, str], None]]:
    """A bar with the time left on stderr; where that is no terminal, a line for everything done."""
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
