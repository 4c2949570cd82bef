"""bdp and advise: calculations about a path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from emulator.cli.options import PROBABILITY
from emulator.cli.output import emit_json, json_option
from emulator.cli.types import ADDRESS, RATE, RTT, SIZE
from emulator.model.topology import LEAST_MTU, MOST_MTU

F = TypeVar("F", bound=Callable[..., Any])


def path_options(command: F) -> F:
    """The options that describe a path."""
    options = (
        click.option("--rate", "rate_bps", type=RATE, default="10Gbit", show_default=True, help="The bottleneck."),
        click.option("--rtt", "rtt_ns", type=RTT, required=True, help="Round-trip time; a bare number is ms."),
        click.option(
            "--mtu", type=click.IntRange(LEAST_MTU, MOST_MTU), metavar="BYTES", default=1500, show_default=True,
            help="MTU of the path.",
        ),
        click.option(
            "--streams", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Parallel streams."
        ),
        click.option("--loss", "loss_p32", type=PROBABILITY, default="0", show_default=True, help="Random loss."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul bdp --rate 10Gbit --rtt 346ms\n"
    "  longhaul bdp --rate 1Gbit --rtt 71ms --window 256KiB --streams 7\n"
    "  longhaul bdp --rate 10Gbit --rtt 80ms --loss 0.01%"
)
@path_options
@click.option("--window", "window_bytes", type=SIZE, help="Window: the most bytes that one stream has in flight.")
@click.option(
    "--cc", "algorithm", default="cubic", show_default=True, metavar="NAME", help="Congestion control, used with loss."
)
@json_option
def bdp(
    rate_bps: int, rtt_ns: int, mtu: int, window_bytes: int | None, streams: int, loss_p32: int,
    algorithm: str, as_json: bool,
) -> None:  # fmt: skip
    """Calculate a path: what it holds, what TCP needs to fill it, what the emulator needs to provide it."""
    from emulator.analysis.tcp_path import TcpPath
    from emulator.experiment import path_calculator
    from emulator.model.loss_model import P32

    path = TcpPath(rate_bps, rtt_ns, mtu, loss_p32 / P32, streams, algorithm)
    facts = path_calculator.facts(path, window_bytes)
    if as_json:
        emit_json(facts)
        return
    rows = path_calculator.rows(path, facts)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name.ljust(width)}  {value}")


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul advise --rate 10Gbit --rtt 346ms\n"
    "  longhaul advise --rate 1Gbit --rtt 71ms --loss 0.01%\n"
    "  longhaul advise --rtt 80 --to 10.77.0.3"
)
@path_options
@click.option("--to", "peer", type=ADDRESS, help="The other host; without it, the default route leads there.")
@json_option
def advise(rate_bps: int, rtt_ns: int, mtu: int, streams: int, loss_p32: int, peer: str | None, as_json: bool) -> None:
    """Print the commands that prepare both hosts for a path, and what they gain."""
    from emulator import units
    from emulator.analysis.tcp_path import TcpPath
    from emulator.experiment import path_calculator
    from emulator.model.loss_model import P32

    advice = path_calculator.host_advice(TcpPath(rate_bps, rtt_ns, mtu, loss_p32 / P32, streams), peer)
    if as_json:
        figures = {"before_bytes_per_s": advice.before, "after_bytes_per_s": advice.after, "limit": advice.then}
        emit_json({"commands": advice.commands, **figures, "streams_needed": advice.streams})
        return
    for command in advice.commands:
        click.echo(command)
    before, after = map(units.throughput_text, (advice.before, advice.after))
    click.echo(f"# on both hosts: from {before} to {after}, then {advice.then}")
    if advice.streams > streams:
        click.echo(f"# {advice.streams} streams of these windows fill the line")
