"""The commands that change and show the lanes as a whole: up, down, status, plan; and schema, completion."""

from __future__ import annotations

import click

from emulator.cli.options import appliance_of, confirm_option, confirm_s, dry_run_option, until_confirmed
from emulator.cli.output import count, emit_json, emit_status, emit_steps, json_option
from emulator.errors import EXIT_NOT_AS_ASKED

NOT_PLAYED = "nobody plays the schedule: run longhaul schedule run FILE, or longhaul daemon"


@click.command(
    epilog="\b\nExamples:\n  longhaul up topologies/new-york.yaml\n  longhaul up --dry-run topologies/new-york.yaml\n"
    "  longhaul up --confirm 60s topologies/new-york.yaml"
)
@click.argument("file", type=click.Path())
@confirm_option
@dry_run_option
@json_option
@click.pass_context
def up(ctx: click.Context, file: str, confirm_ns: int | None, dry_run: bool, as_json: bool) -> None:
    """Bring the topology in FILE up.

    Lanes that are already up as FILE describes them stay untouched; Longhaul changes lanes that differ live. When a
    step fails, Longhaul reverts all steps.
    """
    from emulator.config import loader

    hints: list[str] = []
    topology = loader.load(file, hints)
    seconds = confirm_s(ctx, confirm_ns, dry_run)
    appliance = appliance_of(ctx)
    warned = hints + appliance.warnings(topology)
    if topology.schedule and not appliance.is_played():
        warned.append(NOT_PLAYED)
    steps = appliance.plan(topology) if dry_run else appliance.up(topology, seconds)
    lanes = count(len(topology.lanes), "lane")
    would = "would be up" if dry_run else "is up"
    what = count(len(steps), "step") if steps else "nothing to change"
    summary = f"{topology.name} {would}: {lanes}, {what}{until_confirmed(confirm_ns)}"
    emit_steps(steps, as_json, summary, listed=dry_run, warned=warned + appliance.take_notes())


@click.command(epilog="\b\nExamples:\n  longhaul down\n  longhaul down --dry-run")
@dry_run_option
@json_option
@click.pass_context
def down(ctx: click.Context, dry_run: bool, as_json: bool) -> None:
    """Remove all lanes and restore the ports."""
    appliance = appliance_of(ctx)
    steps = appliance.plan_down() if dry_run else appliance.down()
    what = count(len(steps), "step") if steps else "nothing was up"
    summary = f"{'would be down' if dry_run else 'down'}: {what}"
    emit_steps(steps, as_json, summary, listed=dry_run, warned=appliance.take_notes() or None)


@click.command(epilog="\b\nExamples:\n  longhaul plan topologies/new-york.yaml\n  longhaul plan --json lab.yaml")
@click.argument("file", type=click.Path())
@json_option
@click.pass_context
def plan(ctx: click.Context, file: str, as_json: bool) -> None:
    """Show the ip and tc commands that 'up FILE' would perform on this machine now, each with its reason."""
    from emulator.config import loader

    hints: list[str] = []
    topology = loader.load(file, hints)
    appliance = appliance_of(ctx)
    steps, warned = appliance.plan(topology), hints + appliance.warnings(topology)
    summary = count(len(steps), "step") if steps else "nothing to change"
    emit_steps(steps, as_json, summary, listed=True, warned=warned)


@click.command(epilog="\b\nExamples:\n  longhaul status\n  longhaul status --json")
@json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show every lane: its settings, the kernel's state, and the drops.

    Exits with 8 when the kernel's state differs from the settings (drift).
    """
    appliance = appliance_of(ctx)
    answer = appliance.status()
    if answer.topology and answer.topology.schedule and not appliance.is_played():
        click.echo(f"warning: {NOT_PLAYED}", err=True)
    if as_json:
        from emulator.control.status_document import document

        emit_json(document(answer))
    else:
        emit_status(answer)
    if not answer.as_asked:
        ctx.exit(EXIT_NOT_AS_ASKED)


@click.command(
    epilog="\b\nExamples:\n  longhaul schema > topology.schema.json\n  longhaul schema --path-profile > path.json"
)
@click.option("--path-profile", is_flag=True, help="Print the schema of the files that `longhaul record` writes.")
@click.option("--json", is_flag=True, expose_value=False, help="JSON, which is the only format.")
def schema(path_profile: bool) -> None:
    """Print the JSON Schema of a topology file, or of a path profile, for editors."""
    if path_profile:
        from emulator.record import file

        emit_json(file.json_schema())
        return
    from emulator.config import loader

    emit_json(loader.json_schema())


@click.command(epilog='\b\nExample:\n  eval "$(longhaul completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print the completion script of SHELL."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "longhaul", "_LONGHAUL_COMPLETE").source()
    if as_json:
        emit_json({"shell": shell, "script": script})
    else:
        click.echo(script)
