"""Lanes that a request or a command adds to what is up: read as a topology file's lanes, each mistake at its key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.config import loader, yaml_source
from emulator.config.schema import Form, LaneForm
from emulator.errors import InputError, Mistake
from emulator.model import lane_set
from emulator.model.topology import Lane, Topology


class NewLanesForm(Form):
    """New lanes by name, as in a topology file."""

    lanes: dict[str, LaneForm]


def read(topology: Topology, tree: Mapping[str, Any], where: str, hints: list[str]) -> tuple[Lane, ...]:
    """The lanes by name of a tree of JSON values, for this topology. Appends hints about old words to `hints`.

    Raises InputError with every mistake, each at its path below `lanes.NAME`.
    """
    star = {"name": topology.name, "hub": topology.hub, "subnet": str(topology.subnet), "lanes": dict(tree)}
    if wrong := [Mistake(where, f"lanes.{name}", why) for name in tree if (why := lane_set.taken(topology, name))]:
        raise InputError(wrong)
    return loader.build(yaml_source.of_json(star, where), hints=hints).lanes


def added(topology: Topology, lanes: tuple[Lane, ...], where: str = "") -> Topology:
    """The topology with these lanes (`lane_set.added`). Raises InputError."""
    try:
        return lane_set.added(topology, lanes)
    except ValueError as error:
        raise InputError.single(str(error), where, f"lanes.{lanes[0].name}" if where else "") from None
