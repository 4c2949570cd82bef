"""The result of a cell that ran a program, to JSON and back."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from emulator.analysis.program_runs import ProgramJudgement, ProgramRuns
from emulator.analysis.tcp_path import TcpPath
from emulator.experiment import repeated_result
from emulator.experiment.cell_result import CellSpec
from emulator.experiment.repeated_result import RepeatedResult
from emulator.model.sweep_axes import INBOUND, OUTBOUND


class ProgramResult(RepeatedResult, frozen=True, kw_only=True):
    """What running the program over the cell's lane showed, in groups.

    `repeats` are mean completion times, in s.
    """

    program: ProgramRuns
    judgement: ProgramJudgement

    @property
    def figure(self) -> float:
        """What repeats are compared by: the mean completion time, in s."""
        return self.program.mean_completion_s


def busier_path(spec: CellSpec, program: ProgramRuns) -> TcpPath:
    """The path of the direction that carried more in the median run, with the larger loss of both directions."""
    run, paths = program.median, [replace(spec, direction=way).path for way in (OUTBOUND, INBOUND)]
    away = (run.sent_bytes >= run.received_bytes) == (spec.direction == OUTBOUND)
    return replace(paths[0 if away else 1], loss=max(path.loss for path in paths))


def merged(results: Sequence[ProgramResult]) -> ProgramResult:
    """The measurements of one cell as one result."""
    return repeated_result.merged(results)
