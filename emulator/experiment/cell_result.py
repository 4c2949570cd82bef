"""The result of a cell of streams, and of its directions."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis.observed import Queues, Sockets
from emulator.analysis.transfer import Transfer
from emulator.analysis.verdict import Judgement, Throughput
from emulator.experiment.repeated_result import RepeatedResult
from emulator.model.sweep_axes import OUTBOUND


class DirectionResult(Struct, frozen=True):
    """One direction of a cell that was measured both ways at once, in the groups of `CellResult`."""

    direction: str
    throughput: Throughput
    transfer: Transfer
    queues: Queues
    judgement: Judgement


class CellResult(RepeatedResult, frozen=True, kw_only=True):
    """The result of one cell of streams, in groups. Throughputs are payload at the receiver; windows are of one stream.

    In a cell of both directions `ways` holds each direction, and the other fields are the slower one's
    (`both_directions.joined`). `repeats` are the steady means of all measurements of the cell; with several,
    `throughput` has the means of all.
    """

    throughput: Throughput
    transfer: Transfer
    sockets: Sockets | None
    judgement: Judgement
    ways: tuple[DirectionResult, ...]

    @property
    def steady_bytes_per_s(self) -> float:
        """The figure for comparing cells, as `figure` is for all kinds: the steady mean."""
        return self.throughput.steady_bytes_per_s

    @property
    def ways_ns(self) -> tuple[int | None, int | None]:
        """The median idle delays outbound and inbound, None where unknown; the probes are sent by the data's sender."""
        idle = self.delays.idle
        there, back = (idle.there_ns, idle.back_ns) if idle else (None, None)
        return (there, back) if self.spec.direction == OUTBOUND else (back, there)

    def of_all(self, results: Sequence[Self]) -> dict[str, Any]:
        """The mean throughputs, of the cell and of each direction."""
        ways = (
            replace(way, throughput=_mean([result.ways[n].throughput for result in results], way.throughput))
            for n, way in enumerate(self.ways)
        )
        throughput = _mean([result.throughput for result in results], self.throughput)
        return {"throughput": throughput, "ways": tuple(ways)}


def _mean(all: Sequence[Throughput], middle: Throughput) -> Throughput:
    """The means of all, with the median one's steady part."""
    return replace(
        middle,
        steady_bytes_per_s=fmean(one.steady_bytes_per_s for one in all),
        mean_bytes_per_s=fmean(one.mean_bytes_per_s for one in all),
        first_10s_bytes_per_s=fmean(one.first_10s_bytes_per_s for one in all),
        settled=min(one.settled for one in all),
    )
