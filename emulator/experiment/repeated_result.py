"""What results of repeated measurements have in common: their way to JSON and back, and several as one."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from typing import Any

from emulator.experiment.cell_result import FORMAT, CellSpec
from emulator.system import struct_json


def to_json(result: Any) -> dict[str, Any]:
    """A result, whose first field is its `spec`, by groups and with the format's number."""
    return _to_json(result, result.spec.to_json())


def from_lab(result: Any) -> dict[str, Any]:
    """`to_json` of any kind of result, as its lab prints it: `CellSpec.for_lab` says what differs."""
    return _to_json(result, result.spec.for_lab())


def _to_json(result: Any, spec: dict[str, Any]) -> dict[str, Any]:
    groups = {name: struct_json.to_plain(getattr(result, name)) for name in result.__struct_fields__[1:]}
    return {"format": FORMAT, "spec": spec, **groups}


def from_json(kind: type[Any], value: Mapping[str, Any]) -> Any:
    """The inverse of `to_json`. Raises KeyError, TypeError, ValueError on anything else."""
    kinds = typing.get_type_hints(kind)
    groups = {name: struct_json.read(kinds[name], value[name]) for name in kind.__struct_fields__[1:]}
    return kind(CellSpec.from_json(value["spec"]), **groups)


def reasons(judgements: Iterable[Any]) -> tuple[str, ...]:
    """Why any of the measurements is invalid, each reason once."""
    return tuple(dict.fromkeys(reason for one in judgements for reason in one.invalid))


def findings(judgements: Iterable[Any]) -> tuple[str, ...]:
    """What the checks found, one sentence for each check: its numbers differ from repeat to repeat."""
    found: dict[str, str] = {}
    for said in (said for one in judgements for said in one.findings):
        found.setdefault(said.partition(": ")[0], said)
    return tuple(found.values())
