"""rfc6349: the TCP throughput test of RFC 6349 over a lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from emulator.cli.complete import lane_names
from emulator.cli.options import appliance_of, need_up
from emulator.cli.output import emit_json, emit_table, json_option
from emulator.cli.sweep_options import old_option
from emulator.cli.types import SECONDS
from emulator.errors import InputError, no_such
from emulator.model.sweep_axes import MOST_STREAMS

if TYPE_CHECKING:
    from emulator.analysis.rfc6349_metrics import Survey

DURATION = "10s"
LEAST_DURATION_S = 2


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul rfc6349 japan\n"
    "  longhaul rfc6349 far --duration 30s --streams 8\n"
    "  longhaul lab run -- sh -c 'longhaul up topologies/single-lane.yaml && longhaul rfc6349 far'"
)
@click.argument("lane", shell_complete=lane_names)
@click.option("--duration", type=SECONDS, default=DURATION, show_default=True, help="Length of each test, at least 2s.")
@click.option(
    "--streams",
    type=click.IntRange(2, MOST_STREAMS),
    default=4,
    show_default=True,
    metavar="N",
    help="Streams of the tests with multiple connections.",
)
@click.option("--tcp-profile", metavar="NAME", help="TCP profile during the test.  [default: max]")
@old_option("profile", "tcp_profile", click.STRING)
@json_option
@click.pass_context
def rfc6349(ctx: click.Context, lane: str, duration: int, streams: int, tcp_profile: str | None, as_json: bool) -> None:
    """Test TCP over LANE of the active topology with the procedure of RFC 6349.

    Measures path MTU, baseline RTT and bottleneck first; then tests single and multiple connections, each direction
    alone and both at once, and reports transfer time ratio, efficiency and buffer delay of each.
    """
    from emulator.experiment import rfc6349_procedure
    from emulator.hosts import resolve, tcp_profiles

    if duration < LEAST_DURATION_S:
        raise click.BadParameter(
            f"{duration} s is too short: use at least {LEAST_DURATION_S}s", param_hint="--duration"
        )
    topology = need_up(appliance_of(ctx).topology(), path=lane)
    if lane not in topology.sites:
        raise InputError.single(no_such("lane", lane, topology.sites))
    measured = topology.lane(lane)
    if not all(end.is_namespace or end.destination for end in topology.ends(lane)):
        raise InputError.single("the lane has no hosts: add host to the lane, and hub_host to the topology", path=lane)
    known, ways = tcp_profiles.load_profiles(None), (measured.outbound, measured.inbound)
    chosen = tcp_profiles.choose(tcp_profile or tcp_profiles.MAXIMUM, known, measured, *ways)
    with resolve.reached(topology) as hosts:
        ends = hosts[topology.hub], hosts[lane]
        with tcp_profiles.applied(chosen, *ends) as unset:
            for text in unset:
                click.echo(text, err=True)
            found = rfc6349_procedure.run(
                topology, measured, ends, duration, streams, lambda text: click.echo(text, err=True)
            )
    if as_json:
        emit_json(_json(found))
    else:
        _emit(found)


def _json(found: Survey) -> dict[str, Any]:
    from emulator.analysis import rfc6349_metrics

    keys = ("transfer_time_ratio", "efficiency", "buffer_delay")
    return {
        "lane": found.lane,
        "path_mtu": found.mtu,
        "baseline_rtt_ns": found.baseline_rtt_ns,
        "directions": {
            name: {
                "bottleneck_bps": way.bottleneck_bps,
                "minimum_rwnd_bytes": rfc6349_metrics.minimum_rwnd_bytes(way.bottleneck_bps, found.baseline_rtt_ns),
                "achievable_bps": way.achievable_bps,
            }
            for name, way in found.directions.items()
        },
        "transfers": [
            {
                "name": one.name,
                "direction": one.direction,
                "bps": one.bps,
                **dict(zip(keys, found.metrics(one), strict=True)),
            }
            for one in found.transfers
        ],
    }


def _emit(found: Survey) -> None:
    """Print the report for people: the path first, then one row for each test."""
    from emulator import units
    from emulator.analysis import rfc6349_metrics

    for name, value in (("path MTU", f"{found.mtu} bytes"), ("baseline RTT", f"{found.baseline_rtt_ns / 1e6:.3f} ms")):
        click.echo(f"{name.ljust(15)} {value}")
    click.echo()
    rows = [
        (
            name,
            units.both_rates(way.bottleneck_bps / 8),
            f"{rfc6349_metrics.bdp_bits(way.bottleneck_bps, found.baseline_rtt_ns) / 1e6:.3f} Mbit",
            f"{rfc6349_metrics.minimum_rwnd_bytes(way.bottleneck_bps, found.baseline_rtt_ns) / 1000:.1f} kB",
            units.both_rates(way.achievable_bps / 8),
        )
        for name, way in found.directions.items()
    ]
    emit_table(("direction", "bottleneck", "BDP", "minimum RWND", "achievable TCP"), rows, left=("direction",))
    click.echo()
    rows = []
    for one in found.transfers:
        ratio, efficiency, delay = found.metrics(one)
        rows.append((one.name, units.both_rates(one.bps / 8), f"{ratio:.3f}", f"{efficiency:.2%}", f"{delay:.1%}"))
    emit_table(("test", "MiB/s (Gbit/s)", "transfer time ratio", "efficiency", "buffer delay"), rows, left=("test",))
