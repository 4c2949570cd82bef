"""The repeats of one cell as one result. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from emulator.experiment.cell_result import CellResult, DirectionResult


def merge(results: Sequence[CellResult]) -> CellResult:
    """The repeats of one cell as one result: the median one, with the mean of all as its steady figure.

    What speaks against any of them speaks against the mean.
    """
    middle = sorted(results, key=lambda result: result.steady_bytes_per_s)[(len(results) - 1) // 2]
    if len(results) == 1:
        return middle
    invalid = dict.fromkeys(reason for result in results for reason in result.invalid)
    means = tuple(result.steady_bytes_per_s for result in results)
    return replace(
        middle,
        steady_bytes_per_s=statistics.fmean(means),
        mean_bytes_per_s=statistics.fmean(result.mean_bytes_per_s for result in results),
        first_10s_bytes_per_s=statistics.fmean(result.first_10s_bytes_per_s for result in results),
        settled=all(result.settled for result in results),
        invalid=tuple(invalid),
        ways=tuple(_merge_way([result.ways[n] for result in results], way) for n, way in enumerate(middle.ways)),
        repeats=means,
    )


def _merge_way(ways: Sequence[DirectionResult], middle: DirectionResult) -> DirectionResult:
    return replace(
        middle,
        steady_bytes_per_s=statistics.fmean(way.steady_bytes_per_s for way in ways),
        mean_bytes_per_s=statistics.fmean(way.mean_bytes_per_s for way in ways),
        settled=all(way.settled for way in ways),
    )
