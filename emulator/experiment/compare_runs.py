"""Compares runs: which cells changed by more than the uncertainty of both. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emulator.analysis import statistics
from emulator.experiment.cell_result import CellResult


@dataclass(frozen=True)
class CellComparison:
    """One cell then and now: steady means in bytes/s, and whether they differ beyond their confidence intervals."""

    id: str
    before: CellResult
    after: CellResult

    @property
    def share(self) -> float:
        """By how much the steady mean changed; 0.1 is a tenth more."""
        return self.after.steady_bytes_per_s / self.before.steady_bytes_per_s - 1

    @property
    def differs(self) -> bool:
        """Whether the difference exceeds the uncertainty."""
        one, other = (
            (result.steady_bytes_per_s, result.half_width_bytes_per_s) for result in (self.before, self.after)
        )
        return statistics.differ(one, other)

    @property
    def regressed(self) -> bool:
        """Whether the cell became slower beyond the uncertainty, or a valid cell became invalid."""
        spoilt = bool(self.after.judgement.invalid) and not self.before.judgement.invalid
        return spoilt or (self.differs and self.share < 0)

    @property
    def word(self) -> str:
        """For the table."""
        if self.regressed:
            return "REGRESSION"
        return ("faster" if self.share > 0 else "slower") if self.differs else "same"


def changes(before: Mapping[str, CellResult], after: Mapping[str, CellResult]) -> list[CellComparison]:
    """Every cell that is in both, in the order of the new run."""
    return [CellComparison(id, before[id], result) for id, result in after.items() if id in before]
