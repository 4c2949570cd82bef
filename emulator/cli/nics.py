"""The commands for the machine's own ports: nics, init, tune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulator import units
from emulator.cli.options import TIME, appliance_of
from emulator.cli.output import count, emit_json, emit_table, json_option
from emulator.errors import InputError, RefusedError

if TYPE_CHECKING:
    from emulator.plan.irq_affinity import Setting
    from emulator.plan.nic_inventory import NicRow

COLUMNS = ("port", "driver", "bus", "speed", "link", "NUMA", "RX/TX queues", "MTU", "merging", "owner", "use")


@click.command(epilog="\b\nExamples:\n  longhaul nics\n  longhaul nics --json")
@json_option
@click.pass_context
def nics(ctx: click.Context, as_json: bool) -> None:
    """List the machine's network ports: their properties, their owners, and why some cannot be used for a lane."""
    rows = appliance_of(ctx).nics()
    if as_json:
        emit_json([_json(row) for row in rows])
        return
    emit_table(COLUMNS, [_cells(row) for row in rows], left=("port", "driver", "bus", "merging", "owner", "use"))


def _json(row: NicRow) -> dict[str, Any]:
    nic = row.nic
    return {
        "name": row.name,
        "altnames": list(nic.altnames),
        "mac": nic.mac,
        "permanent_mac": nic.permanent_mac or None,
        "bus": nic.bus or None,
        "driver": nic.driver or None,
        "speed_bps": nic.speed_mbps * 10**6 if nic.speed_mbps else None,
        "up": row.up,
        "carrier": nic.carrier,
        "numa_node": None if nic.numa_node < 0 else nic.numa_node,
        "rx_queues": nic.rx_queues,
        "tx_queues": nic.tx_queues,
        "mtu": nic.mtu,
        "offloads": sorted(nic.offloads),
        "owner": row.owner or None,
        "usable": not row.reasons,
        "reasons": list(row.reasons),
    }


def _cells(row: NicRow) -> list[str]:
    nic = row.nic
    return [
        row.name,
        nic.driver or "-",
        nic.bus or "-",
        units.format_rate(nic.speed_mbps * 10**6) if nic.speed_mbps else "-",
        ("link" if nic.carrier else "no link") if row.up else "down",
        "-" if nic.numa_node < 0 else str(nic.numa_node),
        f"{nic.rx_queues}/{nic.tx_queues}",
        str(nic.mtu),
        ", ".join(name.removeprefix("rx-") for name in sorted(nic.offloads)) or "-",
        row.owner or "-",
        "; ".join(row.reasons) or "free",
    ]


class SiteRtt(click.ParamType):  # type: ignore[type-arg]
    """NAME=RTT."""

    name = "NAME=RTT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """The site and its RTT in ns."""
        if isinstance(value, tuple):
            return value
        site, equals, rtt = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} is not a site and its RTT, such as london=80ms", param, ctx)
        return site, TIME.convert(rtt, param, ctx)


@click.command(
    epilog="\b\nExamples:\n  longhaul init lab.yaml\n"
    "  longhaul init lab.yaml --hub new-york --rtt london=80ms --rtt japan=346ms --by mac"
)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--hub", default="hub", show_default=True, metavar="NAME", help="Name of the local data centre.")
@click.option("--rtt", "rtts", type=SiteRtt(), multiple=True, help="A site and its RTT; repeat it for each lane.")
@click.option(
    "--by", type=click.Choice(["name", "mac", "pci"]), default="name", show_default=True, help="How to name the ports."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@json_option
@click.pass_context
def init(
    ctx: click.Context, file: str, hub: str, rtts: tuple[tuple[str, int], ...], by: str, force: bool, as_json: bool
) -> None:
    """Write a topology FILE from the connected ports: free ports in pairs, one lane for each pair.

    Asks for the sites and their RTTs, unless --rtt names them. `longhaul nics` shows the ports.
    """
    from emulator.config import loader
    from emulator.plan.nic_inventory import free_pairs, propose
    from emulator.system import named_file

    path = Path(file)
    if path.exists() and not force:
        raise InputError.single("exists already; name another file, or overwrite it with --force", file)
    named_file.check(path)
    pairs = free_pairs(appliance_of(ctx).nics())
    if not pairs:
        raise RefusedError("no two free ports have the same speed and MTU; 'longhaul nics' shows why")
    try:
        topology = propose(path.stem, hub, rtts or _ask(pairs), pairs, by)
    except ValueError as error:
        raise InputError.single(str(error), file) from None
    named_file.write(path, loader.dumps(topology))
    summary = f"{file}: {count(len(topology.lanes), 'lane')}; bring it up with longhaul up {file}"
    if as_json:
        lanes = [{"name": lane.name, "rtt_ns": lane.rtt_ns, "ports": lane.named_ports} for lane in topology.lanes]
        emit_json({"summary": summary, "file": file, "lanes": lanes})
    else:
        click.echo(summary)


def _ask(pairs: list[tuple[NicRow, NicRow]]) -> list[tuple[str, int]]:
    """Ask for a site and an RTT for each pair; an empty name skips the pair and all further ones."""
    answers: list[tuple[str, int]] = []
    for one, other in pairs:
        question = f"site on {one.name} (hub) and {other.name} (site), empty to stop"
        site = click.prompt(question, default="", show_default=False, err=True)
        if not site:
            break
        answers.append((site, click.prompt(f"round-trip time to {site}, such as 80ms", type=TIME, err=True)))
    return answers


@click.command(
    epilog="\b\nExamples:\n  longhaul tune --dry-run\n  sudo longhaul tune\n"
    "  sudo longhaul tune eth2 eth3\n  sudo longhaul tune --restore"
)
@click.argument("ports", nargs=-1, metavar="[PORT]...")
@click.option("--restore", is_flag=True, help="Restore the settings from before the first tune.")
@click.option("--dry-run", is_flag=True, help="Show old and new settings, and change nothing.")
@json_option
@click.pass_context
def tune(ctx: click.Context, ports: tuple[str, ...], restore: bool, dry_run: bool, as_json: bool) -> None:
    """Assign CPU cores to every port, one for each 10 Gbit/s, on its NUMA node: interrupts, RPS and XPS.

    Without a PORT, tunes the ports of the active topology. The previous settings are saved first.
    """
    from emulator.kernel.sysfs_affinity import Tunables
    from emulator.system import state_dir
    from emulator.system.clock import SystemClock

    door = Tunables(Path("/"), state_dir.state_dir(), SystemClock().boot_id())
    if restore:
        if ports:
            raise click.UsageError("--restore restores all ports: name none")
        settings = door.saved() if dry_run else door.restore()
        _emit_settings(settings, as_json, "would be restored" if dry_run else "restored")
        return
    settings = door.plan(appliance_of(ctx).port_names(ports) if ports else _ports_up(ctx))
    if not dry_run:
        door.apply(settings)
    _emit_settings(settings, as_json, "would be tuned" if dry_run else "tuned")


def _ports_up(ctx: click.Context) -> tuple[str, ...]:
    ports = tuple(row.name for row in appliance_of(ctx).nics() if row.owner == "longhaul")
    if not ports:
        raise InputError.single("no port is in use: name the ports, or bring a topology up first")
    return ports


def _emit_settings(settings: list[Setting], as_json: bool, done: str) -> None:
    changed = [s for s in settings if s.before != s.after]
    summary = f"{done}: {count(len(changed), 'setting')}" if changed else "nothing to change"
    if as_json:
        rows = [{"file": f"/{s.path}", "before": s.before, "after": s.after, "why": s.why} for s in settings]
        emit_json({"summary": summary, "changed": len(changed), "settings": rows})
        return
    if settings:
        rows_text = [[f"/{s.path}", s.before, s.after, s.why] for s in settings]
        emit_table(("file", "before", "after", "why"), rows_text, left=("file", "before", "after", "why"))
    click.echo(summary)
