"""The two directions of a cell with data in both as one result. Pure.

The slower direction's figures become the cell's; the result also holds both directions, each with its own verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from msgspec.structs import replace

from emulator.analysis.verdict import Judgement
from emulator.experiment.cell_result import CellResult, DirectionResult
from emulator.experiment.cell_spec import CellSpec


def joined(spec: CellSpec, results: Sequence[CellResult]) -> CellResult:
    """The result of the cell from those of its directions."""
    slower = min(results, key=attrgetter("figure"))
    return replace(
        slower,
        spec=spec,
        throughput=replace(slower.throughput, settled=all(result.throughput.settled for result in results)),
        judgement=_joined_judgement(slower, results),
        ways=tuple(_way(result) for result in results),
    )


def _joined_judgement(slower: CellResult, results: Sequence[CellResult]) -> Judgement:
    """The slower direction's judgement, with the problems of both."""
    direction, own = slower.spec.direction, slower.judgement
    judged = [(result.spec.direction, result.judgement) for result in results]
    limits = "; ".join(f"{name}: {judgement.limiter}" for name, judgement in judged)
    return replace(
        own,
        limiter=own.limiter if len({judgement.limiter for _, judgement in judged}) == 1 else limits,
        evidence=f"{direction}: {own.evidence}",
        advice=f"{direction}: {own.advice}" if own.advice else "",
        invalid=_reported([(name, "", reason) for name, judgement in judged for reason in judgement.invalid]),
        findings=_reported([
            (name, f"{check}: ", sentence)
            for name, judgement in judged
            for check, _, sentence in (finding.partition(": ") for finding in judgement.findings)
        ]),
    )  # fmt: skip


def _reported(said: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    """Merge (direction, head, sentence): a sentence of both directions appears once, any other with its direction."""
    sentences = [(head, sentence) for _, head, sentence in said]
    return tuple(
        dict.fromkeys(
            f"{head}{sentence}" if sentences.count((head, sentence)) > 1 else f"{head}{direction}: {sentence}"
            for direction, head, sentence in said
        )
    )


def _way(result: CellResult) -> DirectionResult:
    groups = (result.throughput, result.transfer, result.queues, result.judgement)
    return DirectionResult(result.spec.direction, *groups)
