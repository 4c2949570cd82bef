"""A cell whose data flows both ways at once: the results of the two directions as one. Pure.

The slower direction's figures are the cell's; both directions' stand beside them, and each is judged by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace

from emulator.experiment.cell_result import CellResult, CellSpec, DirectionResult


def joined(spec: CellSpec, results: Sequence[CellResult]) -> CellResult:
    """The result of the cell from those of its directions."""
    slower = min(results, key=lambda result: result.steady_bytes_per_s)
    limiters = {result.limiter for result in results}
    limits = "; ".join(f"{result.spec.direction}: {result.limiter}" for result in results)
    direction = slower.spec.direction
    return replace(
        slower,
        spec=spec,
        settled=all(result.settled for result in results),
        limiter=slower.limiter if len(limiters) == 1 else limits,
        evidence=f"{direction}: {slower.evidence}",
        advice=f"{direction}: {slower.advice}" if slower.advice else "",
        invalid=_reported([(result.spec.direction, "", reason) for result in results for reason in result.invalid]),
        findings=_reported([
            (result.spec.direction, f"{name}: ", sentence)
            for result in results
            for name, _, sentence in (finding.partition(": ") for finding in result.findings)
        ]),
        ways=tuple(_way(result) for result in results),
    )  # fmt: skip


def _reported(said: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    """(direction, head, sentence): what both directions say alike is told once, all else with its direction."""
    sentences = [(head, sentence) for _, head, sentence in said]
    return tuple(
        dict.fromkeys(
            f"{head}{sentence}" if sentences.count((head, sentence)) > 1 else f"{head}{direction}: {sentence}"
            for direction, head, sentence in said
        )
    )


def _way(result: CellResult) -> DirectionResult:
    names = [field.name for field in dataclasses.fields(DirectionResult) if field.name != "direction"]
    return DirectionResult(direction=result.spec.direction, **{name: getattr(result, name) for name in names})
