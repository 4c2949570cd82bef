"""What the results of all kinds of cells have in common: their figure, their way to JSON and back, repeats as one."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping, Sequence
from operator import attrgetter
from statistics import fmean
from typing import Any, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis import statistics
from emulator.analysis.cell_judgement import CellJudgement
from emulator.analysis.observed import CapturedFile, Delays, MachineUse, Queues
from emulator.experiment.cell_spec import CellSpec
from emulator.system import struct_json

FORMAT = 6


class RepeatedResult(Struct, frozen=True, kw_only=True):
    """What a cell showed, in groups. Each kind of workload adds its own figures and its kind of judgement.

    `repeats` are the figures of all measurements of the cell; with several, the groups are those of the median
    measurement. `captures` are the paths in the run folder of all measurements' captures.
    """

    spec: CellSpec
    queues: Queues
    machine: MachineUse
    delays: Delays
    judgement: CellJudgement
    notes: tuple[str, ...]
    repeats: tuple[float, ...]
    captures: tuple[CapturedFile, ...] = ()

    @property
    def figure(self) -> float:
        """What cells and runs are compared by: the mean of `repeats`."""
        return fmean(self.repeats)

    @property
    def half_width(self) -> float:
        """The 99 % confidence half-width of the figure, in its unit; infinite after a single measurement."""
        return statistics.half_width(self.repeats)

    @property
    def half_width_share(self) -> float:
        """The half-width as a share of the figure; infinite where that is unknown."""
        return self.half_width / self.figure if self.figure else math.inf

    @property
    def unsure(self) -> str:
        """Why the mean of several repeats is not certain enough; empty when it is, or after a single measurement."""
        if len(self.repeats) < 2 or statistics.sure(self.repeats):
            return ""
        return (
            f"after {len(self.repeats)} repeats the mean is only known to {self.half_width_share:.1%} (99 % confidence)"
        )

    def of_all(self, results: Sequence[Self]) -> dict[str, Any]:  # noqa: ARG002
        """The groups that hold something of every measurement, of which this one is the median."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """The whole result by groups, with the format's number."""
        return self._to_json(self.spec.to_json())

    def for_lab(self) -> dict[str, Any]:
        """`to_json` as the cell's lab prints it: `CellSpec.for_lab` says what differs."""
        return self._to_json(self.spec.for_lab())

    def _to_json(self, spec: dict[str, Any]) -> dict[str, Any]:
        groups = {name: struct_json.to_plain(getattr(self, name)) for name in self.__struct_fields__[1:]}
        return {"format": FORMAT, "spec": spec, **groups}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises KeyError, TypeError, ValueError on anything else."""
        kinds = typing.get_type_hints(cls)
        groups = {name: struct_json.read(kinds[name], value[name]) for name in cls.__struct_fields__[1:]}
        return cls(spec=CellSpec.from_json(value["spec"]), **groups)


R = TypeVar("R", bound=RepeatedResult)


def merged(results: Sequence[R]) -> R:
    """The measurements of one cell as one result: the median one. What speaks against any of them speaks against the
    mean, and what a check noted of any of them is told."""
    middle = sorted(results, key=attrgetter("figure"))[(len(results) - 1) // 2]
    if len(results) == 1:
        return middle
    judgements = [one.judgement for one in results]
    return replace(
        middle,
        **middle.of_all(results),
        judgement=replace(middle.judgement, invalid=_reasons(judgements), findings=_findings(middle, judgements)),
        repeats=tuple(one.figure for one in results),
        captures=tuple(file for result in results for file in result.captures),
    )


def _reasons(judgements: Sequence[CellJudgement]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for one in judgements for reason in one.invalid))


def _findings(middle: RepeatedResult, judgements: Sequence[CellJudgement]) -> tuple[str, ...]:
    """Those of the median measurement, and one of each check that noted something only of others."""
    known = set(map(_check, middle.judgement.findings))
    others = {_check(said): said for one in judgements for said in one.findings if _check(said) not in known}
    return (*middle.judgement.findings, *others.values())


def _check(finding: str) -> str:
    return finding.partition(": ")[0]
