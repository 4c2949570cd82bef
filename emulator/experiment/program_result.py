"""The result of a cell that ran a program, to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis.observed import CapturedFile, Delays, MachineUse, Queues
from emulator.analysis.program_runs import ProgramJudgement, ProgramRuns
from emulator.analysis.tcp_path import TcpPath
from emulator.experiment import repeated_result
from emulator.experiment.cell_result import CellSpec
from emulator.model.sweep_axes import INBOUND, OUTBOUND


class ProgramResult(Struct, frozen=True):
    """What running the program over the cell's lane showed, in groups.

    `repeats` are the mean completion times (s) of all measurements of the cell; with several, this is the median
    measurement. `captures` are the paths in the run folder of all measurements' captures.
    """

    spec: CellSpec
    program: ProgramRuns
    queues: Queues
    machine: MachineUse
    delays: Delays
    judgement: ProgramJudgement
    notes: tuple[str, ...]
    repeats: tuple[float, ...]
    captures: tuple[CapturedFile, ...] = ()

    @property
    def figure(self) -> float:
        """What repeats are compared by: the mean completion time, in s."""
        return self.program.mean_completion_s

    def to_json(self) -> dict[str, Any]:
        """The whole result by groups, with the format's number."""
        return repeated_result.to_json(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ProgramResult:
        """The inverse of `to_json`. Raises KeyError, TypeError, ValueError on anything else."""
        read: ProgramResult = repeated_result.from_json(cls, value)
        return read


def busier_path(spec: CellSpec, program: ProgramRuns) -> TcpPath:
    """The path of the direction that carried more in the median run, with the larger loss of both directions."""
    run, paths = program.median, [replace(spec, direction=way).path for way in (OUTBOUND, INBOUND)]
    away = (run.sent_bytes >= run.received_bytes) == (spec.direction == OUTBOUND)
    return replace(paths[0 if away else 1], loss=max(path.loss for path in paths))


def merged(results: Sequence[ProgramResult]) -> ProgramResult:
    """The measurements of one cell as one result: the median one, with the objections to all."""
    middle = sorted(results, key=lambda one: one.figure)[(len(results) - 1) // 2]
    if len(results) == 1:
        return middle
    invalid = dict.fromkeys(reason for result in results for reason in result.judgement.invalid)
    findings = dict.fromkeys(said for result in results for said in result.judgement.findings)
    return replace(
        middle,
        judgement=replace(middle.judgement, invalid=tuple(invalid), findings=tuple(findings)),
        repeats=tuple(result.figure for result in results),
        captures=tuple(file for result in results for file in result.captures),
    )
