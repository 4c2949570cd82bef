"""Compares runs: which cells changed by more than the uncertainty of both. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis import statistics
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.program_result import ProgramResult
from emulator.experiment.requests_result import RequestsResult
from emulator.experiment.results import Result


class CellComparison(Struct, frozen=True):
    """One cell then and now: its figures, and whether they differ beyond their intervals."""

    id: str
    before: Result
    after: Result

    @property
    def share(self) -> float | None:
        """By how much the figure changed; 0.1 is a tenth more. None where it was 0 before."""
        return self.after.figure / self.before.figure - 1 if self.before.figure else None

    @property
    def share_text(self) -> str:
        """The share in percent, for people."""
        return "-" if self.share is None else f"{self.share:+.1%}"

    @property
    def unit(self) -> str:
        """What the figure is counted in."""
        if isinstance(self.after, RequestsResult):
            return "requests_per_s"
        return "s" if isinstance(self.after, ProgramResult) else "bytes_per_s"

    @property
    def differs(self) -> bool:
        """Whether the difference exceeds the uncertainty."""
        one, other = ((result.figure, result.half_width) for result in (self.before, self.after))
        return statistics.differ(one, other)

    @property
    def regressed(self) -> bool:
        """Whether the cell became slower beyond the uncertainty, or a valid cell became invalid."""
        spoilt = bool(self.after.judgement.invalid) and not self.before.judgement.invalid
        return spoilt or (self.differs and self.slower)

    @property
    def slower(self) -> bool:
        """Whether it carries less, or takes longer, than before."""
        more = self.after.figure - self.before.figure
        return more > 0 if isinstance(self.after, ProgramResult) else more < 0

    @property
    def word(self) -> str:
        """For the table."""
        if self.regressed:
            return "REGRESSION"
        return ("slower" if self.slower else "faster") if self.differs else "same"


def changes(before: Mapping[str, Result], after: Mapping[str, Result]) -> list[CellComparison]:
    """Every cell that is in both, in the order of the new run."""
    return [
        CellComparison(id, before[id], result)
        for id, result in after.items()
        if id in before and type(before[id]) is type(result)
    ]


def absent(before: Mapping[str, Result], asked: Sequence[CellSpec], after: Mapping[str, Result]) -> list[str]:
    """The cells with a result before and none now, although they were asked for: they failed, or the run was ended."""
    return [spec.id for spec in asked if spec.id in before and spec.id not in after]


Cells = tuple[Sequence[CellSpec], Mapping[str, Result]]
"""Those that were asked for, and the results by id."""


def by_kernel(specs: Sequence[CellSpec], found: Mapping[str, Result]) -> dict[str, Cells]:
    """The cells of every kernel of a run, named alike; the first kernel asked for comes first."""
    asked: dict[str, list[CellSpec]] = {}
    of_kernel: dict[str, dict[str, Result]] = {}
    for spec in specs:
        alike = replace(spec, kernel="")
        asked.setdefault(spec.kernel, []).append(alike)
        known = of_kernel.setdefault(spec.kernel, {})
        if spec.id in found:
            known[alike.id] = found[spec.id]
    return {kernel: (asked[kernel], of_kernel[kernel]) for kernel in asked}


def across_kernels(specs: Sequence[CellSpec], found: Mapping[str, Result]) -> dict[str, list[CellComparison]]:
    """Every other kernel of a run with its cells against those of the first kernel asked for; empty with one kernel."""
    results = [(kernel, own) for kernel, (_, own) in by_kernel(specs, found).items()]
    return {kernel: changes(results[0][1], own) for kernel, own in results[1:]}
