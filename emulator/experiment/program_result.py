"""The result of a cell that ran a program, to JSON and back."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.analysis import statistics
from emulator.analysis.program_runs import ProgramJudgement, ProgramRuns
from emulator.analysis.tcp_path import TcpPath
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.repeated_result import RepeatedResult
from emulator.model.sweep_axes import INBOUND, OUTBOUND


class ProgramResult(RepeatedResult, frozen=True, kw_only=True):
    """What running the program over the cell's lane showed, in groups.

    `repeats` are mean completion times, in s.
    """

    program: ProgramRuns
    judgement: ProgramJudgement

    @property
    def half_width(self) -> float:
        """Of a single measurement, that of its runs."""
        return statistics.half_width(self.repeats if len(self.repeats) > 1 else self.program.completion_s)


def busier_path(spec: CellSpec, program: ProgramRuns) -> TcpPath:
    """The path of the direction that carried more in the median run, with the larger loss of both directions."""
    run, paths = program.median, [replace(spec, direction=way).path for way in (OUTBOUND, INBOUND)]
    away = (run.sent_bytes >= run.received_bytes) == (spec.direction == OUTBOUND)
    return replace(paths[0 if away else 1], loss=max(path.loss for path in paths))
