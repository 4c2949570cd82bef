"""The generated parts of the documentation: tables of keys from the schema, of options from click, of endpoints.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. LONGHAUL_GOLDEN=write pytest tests/docs
writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import click
import yaml

from emulator.cli.main import cli
from emulator.config import key_reference, loader
from emulator.model.impairment_keys import KEYS

PART = re.compile(r"(?P<head><!-- generated: (?P<name>[^>]*?) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
COMMON_OPTIONS = {"--json", "-h, --help"}


def regenerated(text: str) -> str:
    """A page with its generated parts as they must be."""
    return PART.sub(lambda part: part["head"] + part_of(part["name"]) + part["end"], text)


def part_of(name: str) -> str:
    """One generated part, by its name: "options set", "keys LaneForm", "impairments", "endpoints"."""
    kind, _, rest = name.partition(" ")
    if kind == "options":
        return options(rest)
    if kind == "impairments":
        return key_reference.markdown() + "\n"
    if kind == "access":
        return key_reference.access_markdown() + "\n"
    return keys(rest) if kind == "keys" else endpoints()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def options(path: str) -> str:
    """The usage and the options of a command such as "schedule check", but those that every command has."""
    context = context_of(path)
    usage = " ".join(context.command.collect_usage_pieces(context))
    # click adds --help to a command's list once somebody has asked for it.
    given = [one for one in context.command.params if isinstance(one, click.Option)]
    records = [one.get_help_record(context) for one in given]
    rows = [(f"`{record[0]}`", record[1]) for record in records if record and record[0] not in COMMON_OPTIONS]
    return f"`{context.command_path} {usage}`\n" + (f"\n{table(('option', 'meaning'), rows)}" if rows else "") + "\n"


def context_of(path: str) -> click.Context:
    """The context of a command by its path below `longhaul`."""
    context = click.Context(cli, info_name="longhaul", **cli.context_settings)
    for name in path.split():
        assert isinstance(context.command, click.Group)
        below = context.command.get_command(context, name)
        assert below, path
        context = click.Context(below, info_name=name, parent=context)
    return context


def forms() -> dict[str, dict[str, Any]]:
    """The properties of each form of the schema of topology files."""
    schema = loader.json_schema()
    return {"TopologyForm": schema["properties"]} | {name: form["properties"] for name, form in schema["$defs"].items()}


def key_rows(form: str) -> list[tuple[str, list[str], str]]:
    """Each key of a form: its name, example values, and meaning. Of a direction only what a lane has not."""
    known = forms()
    rows = [
        (key, list(values(schema)), meaning(known, key, schema))
        for key, schema in known[form].items()
        if form != "DirectionForm" or key not in known["LaneForm"]
    ]
    return [row for row in rows if row[1] or row[2]]


def meaning(known: dict[str, dict[str, Any]], key: str, schema: dict[str, Any]) -> str:
    """What a key means; a key of a schedule means what that of a lane does, unless it says so itself."""
    return str(schema.get("description") or known["LaneForm"].get(key, {}).get("description") or "")


def values(schema: dict[str, Any]) -> Iterator[str]:
    """The values of a key that its schema shows, as they are written in YAML."""
    if "examples" in schema:
        schema = {"examples": schema["examples"]}
    for one in schema.get("anyOf", [schema]):
        if one.get("type") == "boolean":
            yield from ("true", "false")
        for value in [*one.get("enum", []), *one.get("examples", [])]:
            yield value if isinstance(value, str) else flow(value)


def flow(value: Any) -> str:
    """A value on one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=200, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...").replace("'", "")


def keys(form: str) -> str:
    """The table of a form's keys, but the impairments, which have a table of their own."""
    impairments = set() if form in ("SweepForm", "TopologyForm") else {key.name for key in KEYS}
    rows = [
        (f"`{key}`", " ".join(f"`{value}`" for value in shown), text)
        for key, shown, text in key_rows(form)
        if key not in impairments
    ]
    return table(("key", "values", "meaning"), rows) + "\n"


def endpoints() -> str:
    """The table of the API's endpoints."""
    from web.app import TABLES

    found = [row for table in TABLES for row, _ in table.rows]
    rows = [(f"`{one.method} {one.path}`", one.role, one.summary.splitlines()[0]) for one in found]
    return table(("endpoint", "token", "what it does"), rows) + "\n"
