"""The generated parts of the documentation are what is generated now, and none that should be there is missing."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest
from support.documented_examples import pages
from support.generated_docs import PART, context_of, forms, regenerated

from emulator.cli.main import LazyGroup

WRITE = os.environ.get("LONGHAUL_GOLDEN") == "write"
ALL = "".join(page.read_text() for page in pages())
PARTS = {part["name"] for part in PART.finditer(ALL)}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_generated_parts_are_up_to_date(page: Path) -> None:
    text = page.read_text()
    if WRITE:
        page.write_text(regenerated(text))
    else:
        assert regenerated(text) == text, "after a change that is meant: LONGHAUL_GOLDEN=write pytest tests/docs"


def paths() -> list[str]:
    """Every command that is no group, by its path."""
    found = []
    for name in LazyGroup.commands_at:
        context = context_of(name)
        group = context.command
        below = group.list_commands(context) if isinstance(group, click.Group) else []
        found += [f"{name} {one}" for one in below] or [name]
    return found


def test_every_command_has_its_options() -> None:
    assert {name.removeprefix("options ") for name in PARTS if name.startswith("options ")} == set(paths())


def test_every_form_of_a_topology_file_has_its_keys() -> None:
    shown = {name.removeprefix("keys ") for name in PARTS if name.startswith("keys ")}
    assert shown == forms().keys() - {"DefaultsForm", "DirectionForm", "FlowForm", "PortsForm"}


@pytest.mark.parametrize("name", sorted(PARTS))
def test_a_generated_part_says_something_of_everything(name: str) -> None:
    for row in re.findall(r"^\| (.*) \|$", PART.search(f"<!-- generated: {name} -->\n<!-- end -->")[0], re.MULTILINE):  # type: ignore[index]
        assert not row.endswith("| "), row
