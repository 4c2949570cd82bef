"""The commands for geography: places, star."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import asdict

from emulator import units
from emulator.cli.output import emit_json, emit_table, json_option
from emulator.errors import InputError
from emulator.model import geography

COLUMNS = ("from", "to", "great circle", "least RTT", "RTT", "source")


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul places\n"
    "  longhaul places new-york tokyo\n"
    "  longhaul places new-york london tokyo --json"
)
@click.argument("names", nargs=-1, metavar="[PLACE]...")
@json_option
def places(names: tuple[str, ...], as_json: bool) -> None:
    """List the known places, or the round trips from the first PLACE to each of the others.

    An RTT is measured where a table has it, else estimated: the great circle at the speed of light in fibre, times
    1.5 for the detours of cables.
    """
    try:
        known = [geography.place(name) for name in names]
    except ValueError as error:
        raise InputError.single(str(error)) from None
    if len(known) < 2:
        _list(known or list(geography.places().values()), as_json)
        return
    trips = [(known[0].name, other.name, geography.trip(known[0].name, other.name)) for other in known[1:]]
    if as_json:
        emit_json([{"from": one, "to": other, **asdict(trip)} for one, other, trip in trips])
        return
    rows = [
        [one, other, f"{t.distance_km:.0f} km", f"{t.least_ns / 1e6:.2f} ms", units.format_duration(t.rtt_ns), t.source]
        for one, other, t in trips
    ]
    emit_table(COLUMNS, rows, left=("from", "to", "source"))


def _list(known: list[geography.Place], as_json: bool) -> None:
    if as_json:
        emit_json([asdict(one) for one in known])
        return
    rows = [[one.name, one.country, f"{one.latitude:.2f}", f"{one.longitude:.2f}"] for one in known]
    emit_table(("place", "country", "latitude", "longitude"), rows, left=("place", "country"))


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul star --hub new-york --sites london,tokyo,sao-paulo > lab.yaml\n"
    "  longhaul star --hub london --sites sydney --rate 1Gbit --access lte --output field.yaml"
)
@click.option("--hub", required=True, metavar="PLACE", help="The place of the hub.")
@click.option("--sites", required=True, metavar="PLACE,...", help="The places of the sites.")
@click.option(
    "--rate",
    default="10Gbit",
    show_default=True,
    metavar="RATE",
    help="Bottleneck of every direction; 'none' for none.",
)
@click.option(
    "--access", type=click.Choice(list(geography.ACCESS_NS)), help="Access network of the sites, which adds to the RTT."
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this new file.")
@json_option
def star(hub: str, sites: str, rate: str, access: str | None, output: Path | None, as_json: bool) -> None:
    """Write a topology file from places: the hub, and a lane to every site with the RTT of its place."""
    from emulator.config import loader
    from emulator.system import named_file

    if output:
        named_file.check(output)
    text = _topology(hub, [site.strip() for site in sites.split(",")], rate, access)
    loader.loads(text, "--sites")
    if output:
        named_file.write(output, text, new=True)
    if as_json:
        emit_json({"topology": text, "file": str(output) if output else None})
    elif not output:
        click.echo(text, nl=False)


def _topology(hub: str, sites: list[str], rate: str, access: str | None) -> str:
    lines = [f"name: {hub}-star", f"hub: {hub}", f"defaults: {{rate: {rate}}}", "lanes:"]
    added = f", access: {access}" if access else ""
    for site in sites:
        try:
            trip = geography.trip(hub, site)
        except ValueError as error:
            raise InputError.single(str(error)) from None
        rtt = units.format_duration(trip.rtt_ns + (geography.access_ns(access) if access else 0))
        lines.append(f"  {site}: {{rtt: {{from: {hub}, to: {site}{added}}}}}  # {rtt}, {trip.source}")
    return "\n".join(lines) + "\n"
