"""The commands that change and show the lanes: up, down, status, plan, set; and schema, completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import click

from emulator import distributions, lossmodels, units
from emulator.change import Change
from emulator.cli_output import count, emit_json, emit_status, emit_steps, json_option, status_json
from emulator.errors import EXIT_NOT_AS_ASKED, InputError
from emulator.impairment import QUEUES

if TYPE_CHECKING:
    from emulator.appliance import Appliance

dry_run_option = click.option("--dry-run", is_flag=True, help="Show the commands and change nothing.")


class Quantity(click.ParamType):  # type: ignore[type-arg]
    """An option's value with a unit, read by a parser of `units`; `word` is one more value, meaning 0 or {}."""

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


TIME = Quantity("TIME", units.parse_duration_ns)
LOSS = Quantity("LOSS", lossmodels.parse)
PROBABILITY = Quantity("PROBABILITY", units.parse_probability_p32)
SIZE = Quantity("SIZE", units.parse_size_bytes)
RATE = Quantity("RATE", units.parse_rate_bps, "none", 0)
BUFFER = Quantity("BUFFER", units.parse_buffer, "auto", {})


def _corruption(text: str) -> dict[str, int]:
    from emulator.topologyform import parse_corruption

    return parse_corruption(text)


def _appliance(ctx: click.Context) -> Appliance:
    """The appliance that was handed in, or this machine's own."""
    if ctx.obj is not None:
        return cast("Appliance", ctx.obj)
    from emulator.appliance import local

    return local()


@click.command(
    epilog="\b\nExamples:\n  longhaul up topologies/new-york.yaml\n  longhaul up --dry-run topologies/new-york.yaml"
)
@click.argument("file", type=click.Path())
@dry_run_option
@json_option
@click.pass_context
def up(ctx: click.Context, file: str, dry_run: bool, as_json: bool) -> None:
    """Bring the topology in FILE up.

    What is up already stays untouched; lanes that differ are changed live. When any step fails, the machine is left
    as it was.
    """
    from emulator import topologyfile

    topology = topologyfile.load(file)
    appliance = _appliance(ctx)
    steps = appliance.plan(topology) if dry_run else appliance.up(topology)
    lanes = count(len(topology.lanes), "lane")
    would = "would be up" if dry_run else "is up"
    what = count(len(steps), "step") if steps else "nothing to change"
    emit_steps(steps, as_json, f"{topology.name} {would}: {lanes}, {what}", listed=dry_run)


@click.command(epilog="\b\nExamples:\n  longhaul down\n  longhaul down --dry-run")
@dry_run_option
@json_option
@click.pass_context
def down(ctx: click.Context, dry_run: bool, as_json: bool) -> None:
    """Remove all that is ours and give the ports back as they were."""
    appliance = _appliance(ctx)
    steps = appliance.plan_down() if dry_run else appliance.down()
    what = count(len(steps), "step") if steps else "nothing was up"
    emit_steps(steps, as_json, f"{'would be down' if dry_run else 'down'}: {what}", listed=dry_run)


@click.command(epilog="\b\nExamples:\n  longhaul plan topologies/new-york.yaml\n  longhaul plan --json lab.yaml")
@click.argument("file", type=click.Path())
@json_option
@click.pass_context
def plan(ctx: click.Context, file: str, as_json: bool) -> None:
    """Show the ip and tc commands that 'up FILE' stands for here and now, each with its reason."""
    from emulator import topologyfile

    topology = topologyfile.load(file)
    steps = _appliance(ctx).plan(topology)
    emit_steps(steps, as_json, count(len(steps), "step") if steps else "nothing to change", listed=True)


@click.command(epilog="\b\nExamples:\n  longhaul status\n  longhaul status --json")
@json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show every lane: what was asked, what the kernel holds, what was dropped.

    Exits with 8 when the kernel is no longer as it was asked to be (drift).
    """
    answer = _appliance(ctx).status()
    if as_json:
        emit_json(status_json(answer))
    else:
        emit_status(answer)
    if answer.drift:
        ctx.exit(EXIT_NOT_AS_ASKED)


@click.command(
    "set",
    epilog="\b\nExamples:\n"
    "  longhaul set california --rtt 40ms\n"
    "  longhaul set japan --loss 0.01% --direction inbound\n"
    "  longhaul set japan --loss '1% burst 5' --jitter 5ms --distribution normal\n"
    "  longhaul set japan --rate 1Gbit --buffer 8MiB --queue codel --ecn\n"
    "  longhaul set california --off",
)
@click.argument("lane")
@click.option("--rtt", "rtt_ns", type=TIME, help="Round-trip time, split evenly over both directions.")
@click.option("--outbound-delay", "outbound_delay_ns", type=TIME, help="One-way delay from the hub to the site.")
@click.option("--inbound-delay", "inbound_delay_ns", type=TIME, help="One-way delay from the site to the hub.")
@click.option("--jitter", "jitter_ns", type=TIME, help="Spread of each direction's delay.")
@click.option("--distribution", type=click.Choice(distributions.NAMES), help="The jitter's shape.")
@click.option("--order", type=click.Choice(["keep", "free"]), help="Whether jitter may reorder.")
@click.option("--loss", type=LOSS, help="1%, '1% burst 5', 'gilbert P R 1-H 1-K', '4-state P13 P31 P32 P23 P14'.")
@click.option("--duplicate", "duplicate_p32", type=PROBABILITY, help="Probability that a packet comes twice.")
@click.option("--corrupt", type=Quantity("CORRUPTION", _corruption), help="One bit flipped: 0.1%, or 'ber 1e-9'.")
@click.option("--reorder", "reorder_p32", type=PROBABILITY, help="Probability of overtaking all on their way.")
@click.option("--ecn/--no-ecn", default=None, help="Mark instead of losing, where the flow can take it.")
@click.option("--rate", "rate_bps", type=RATE, help="Bottleneck per direction; 'none' for none.")
@click.option("--buffer", type=BUFFER, help="The bottleneck's queue: 8MiB, 100p, 5ms; 'auto' for one BDP.")
@click.option("--queue", type=click.Choice(QUEUES), help="What a full buffer does.")
@click.option("--overhead", "overhead_bytes", type=SIZE, help="Bytes that every packet counts more.")
@click.option("--cells", type=click.Choice(["none", "atm"]), help="Cells of 53 bytes for 48 (ATM, DSL).")
@click.option(
    "--direction", type=click.Choice(["both", "outbound", "inbound"]), default="both", show_default=True,
    help="What all but the delays is meant for.",
)  # fmt: skip
@click.option("--off", is_flag=True, help="Nothing but the bottleneck stays.")
@dry_run_option
@json_option
@click.pass_context
def change(
    ctx: click.Context, /, lane: str, direction: str, off: bool, dry_run: bool, as_json: bool, **values: Any
) -> None:
    """Change LANE while it is in use: only what is named changes, and no packet is lost or overtaken."""
    named = any(value is not None for value in values.values())
    if named == off:
        raise click.UsageError("name what to change, such as --rtt 40ms" if not off else "--off stands alone")
    appliance = _appliance(ctx)
    topology = appliance.topology()
    if topology is None:
        raise InputError.single("nothing is up: longhaul up FILE", path=lane)
    if lane not in topology.sites:
        raise InputError.single(f"no such lane; there are {', '.join(topology.sites) or 'none'}", path=lane)
    wish = Change(**_fields(values), off=off, outbound=direction != "inbound", inbound=direction != "outbound")
    try:
        changed = wish.apply(topology.lane(lane))
    except ValueError as error:
        raise InputError.single(str(error), path=lane) from None
    steps = appliance.plan(topology.with_lane(changed)) if dry_run else appliance.set_lane(changed)
    what = count(len(steps), "step") if steps else "nothing to change"
    rtt = units.format_duration(changed.rtt_ns)
    emit_steps(steps, as_json, f"{lane} {'would be' if dry_run else 'is'} at {rtt}: {what}", listed=dry_run)


CHANGE_FIELDS = ("rtt_ns", "outbound_delay_ns", "inbound_delay_ns", "jitter_ns", "loss_p32", "rate_bps", "buffer")


def _fields(values: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as the arguments of Change."""
    given = {name: value for name, value in values.items() if value is not None}
    further: dict[str, Any] = {}
    match given.pop("loss", None):
        case int(loss_p32):
            given["loss_p32"] = loss_p32
        case None:
            pass
        case model:
            further |= {"loss_p32": 0, "loss_model": model}
    further |= given.pop("corrupt", {})
    for option, field, meaning in (("order", "keep_order", "keep"), ("cells", "atm", "atm")):
        if option in given:
            further[field] = given.pop(option) == meaning
    further |= {name: given.pop(name) for name in list(given) if name not in CHANGE_FIELDS}
    return given | {"further": further}


@click.command(epilog="\b\nExample:\n  longhaul schema > topology.schema.json")
@click.option("--json", is_flag=True, expose_value=False, help="As it is anyway.")
def schema() -> None:
    """Print the JSON Schema of a topology file, for editors."""
    from emulator import topologyfile

    emit_json(topologyfile.json_schema())


@click.command(epilog='\b\nExample:\n  eval "$(longhaul completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(shell: str, as_json: bool) -> None:
    """Print the completion script of SHELL."""
    from click.shell_completion import get_completion_class

    from emulator.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(cli, {}, "longhaul", "_LONGHAUL_COMPLETE").source()
    if as_json:
        emit_json({"shell": shell, "script": script})
    else:
        click.echo(script)
