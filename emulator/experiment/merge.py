"""Merges results: the two directions of a cell with data in both directions, and the repeats of a cell. Pure.

The slower direction's figures become the cell's; the result also holds both directions, each with its own verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from msgspec.structs import replace

from emulator.analysis.verdict import Judgement, Throughput
from emulator.experiment.cell_result import CellResult, CellSpec, DirectionResult


def joined(spec: CellSpec, results: Sequence[CellResult]) -> CellResult:
    """The result of the cell from those of its directions."""
    slower = min(results, key=_steady)
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


def _steady(result: CellResult) -> float:
    return result.steady_bytes_per_s


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


def merge(results: Sequence[CellResult]) -> CellResult:
    """The repeats of one cell as one result: the median measurement, with the mean of all as its steady figure.

    What speaks against any of them speaks against the mean; what a check noted of any of them is told.
    """
    middle = sorted(results, key=_steady)[(len(results) - 1) // 2]
    if len(results) == 1:
        return middle
    invalid = dict.fromkeys(reason for result in results for reason in result.judgement.invalid)
    findings = [said for result in results for said in result.judgement.findings]
    known = set(map(_check, middle.judgement.findings))
    others = {_check(said): said for said in findings if _check(said) not in known}
    noted = (*middle.judgement.findings, *others.values())
    return replace(
        middle,
        throughput=_mean([result.throughput for result in results], middle.throughput),
        judgement=replace(middle.judgement, invalid=tuple(invalid), findings=noted),
        ways=tuple(
            replace(way, throughput=_mean([result.ways[n].throughput for result in results], way.throughput))
            for n, way in enumerate(middle.ways)
        ),
        repeats=tuple(map(_steady, results)),
        captures=tuple(file for result in results for file in result.captures),
    )


def _check(finding: str) -> str:
    return finding.partition(": ")[0]


def _mean(all: Sequence[Throughput], middle: Throughput) -> Throughput:
    """The means of all, with the median one's steady part."""
    return replace(
        middle,
        steady_bytes_per_s=statistics.fmean(one.steady_bytes_per_s for one in all),
        mean_bytes_per_s=statistics.fmean(one.mean_bytes_per_s for one in all),
        first_10s_bytes_per_s=statistics.fmean(one.first_10s_bytes_per_s for one in all),
        settled=min(one.settled for one in all),
    )
