"""What results of repeated measurements have in common: their way to JSON and back, and several as one."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis.observed import CapturedFile, Delays, MachineUse, Queues
from emulator.experiment.cell_result import FORMAT, CellSpec
from emulator.system import struct_json


class RepeatedResult(Struct, frozen=True, kw_only=True):
    """What a cell showed whose workload is no streams, in groups. Each kind adds its own figures and its
    `judgement`, and has a `figure`, by which repeats and runs are compared.

    `repeats` are the figures of all measurements of the cell; with several, this is the median measurement. `captures`
    are the paths in the run folder of all measurements' captures.
    """

    spec: CellSpec
    queues: Queues
    machine: MachineUse
    delays: Delays
    judgement: Any
    notes: tuple[str, ...]
    repeats: tuple[float, ...]
    captures: tuple[CapturedFile, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The whole result by groups, with the format's number."""
        return to_json(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises KeyError, TypeError, ValueError on anything else."""
        read: Self = from_json(cls, value)
        return read


R = TypeVar("R", bound=RepeatedResult)


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
    return kind(spec=CellSpec.from_json(value["spec"]), **groups)


def merged(results: Sequence[R], of_all: Callable[[R, Sequence[R]], Mapping[str, Any]] = lambda *_: {}) -> R:
    """The measurements of one cell as one result: the median one, with the objections to all.

    `of_all` gives the groups that hold something of every measurement, from the median one and all.
    """
    figure = attrgetter("figure")
    middle: Any = sorted(results, key=figure)[(len(results) - 1) // 2]
    judgements = [one.judgement for one in results]
    whole: R = middle if len(results) == 1 else replace(
        middle,
        **of_all(middle, results),
        judgement=replace(
            middle.judgement, invalid=reasons(judgements), findings=findings([middle.judgement, *judgements])
        ),
        repeats=tuple(map(figure, results)),
        captures=tuple(file for result in results for file in result.captures),
    )  # fmt: skip
    return whole


def reasons(judgements: Iterable[Any]) -> tuple[str, ...]:
    """Why any of the measurements is invalid, each reason once."""
    return tuple(dict.fromkeys(reason for one in judgements for reason in one.invalid))


def findings(judgements: Iterable[Any]) -> tuple[str, ...]:
    """What the checks found, one sentence for each check: its numbers differ from repeat to repeat."""
    found: dict[str, str] = {}
    for said in (said for one in judgements for said in one.findings):
        found.setdefault(said.partition(": ")[0], said)
    return tuple(found.values())
