"""The sentences below the tables of a run, of whatever workload its cells are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.repeated_result import RepeatedResult

Found = Mapping[str, RepeatedResult]
"""Results by the cells' ids."""


def objections(specs: Sequence[CellSpec], found: Found, failures: Mapping[str, str]) -> list[str]:
    """Problems of the run: invalid cells with reasons, failed cells and uncertain means, and notes."""
    said = [f"{id} invalid: {reason}" for id, result in found.items() for reason in result.judgement.invalid]
    said += [f"{spec.id} failed: {failures[spec.id]}" for spec in specs if spec.id in failures]
    said += [f"{id}: {result.unsure}" for id, result in found.items() if result.unsure]
    notes = dict.fromkeys(f"note: {note}" for result in found.values() for note in result.notes)
    return [*said, *notes]


def advice(specs: Sequence[CellSpec], found: Found) -> list[str]:  # noqa: ARG001
    """What would help, and the first cell that it helps."""
    helped: dict[str, list[str]] = {}
    for id, result in found.items():
        helped.setdefault(result.judgement.advice, []).append(id)
    helped.pop("", None)
    return [f"{ids[0]}{f' and {len(ids) - 1} more' * (len(ids) > 1)}: {text}" for text, ids in helped.items()]


def findings(found: Found) -> list[str]:
    """What the checks found that does not void a cell: one line for each check, with its cells."""
    by_name: dict[str, list[str]] = {}
    for id, result in found.items():
        for text in result.judgement.findings:
            name, _, sentence = text.partition(": ")
            if sentence not in result.judgement.invalid:
                by_name.setdefault(name, []).append(f"{id}, {sentence}")
    return [f"{name} in {len(all)} of {len(found)} cells: {all[0]}" for name, all in by_name.items()]


def uncertainty(result: RepeatedResult) -> str:
    """The confidence half-width of the cell's figure in percent; "-" where that is unknown."""
    return f"{result.half_width_share:.1%}" if math.isfinite(result.half_width_share) else "-"
