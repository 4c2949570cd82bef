"""Theory over the time of a run: the slow start, then the ceiling that the verdict names. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from emulator.analysis import tcp_path, throughput_models, verdict
from emulator.analysis.tcp_path import NS, Interval, TcpPath
from emulator.analysis.verdict import Judgement

LAWS_OF = {
    verdict.LINE: (throughput_models.LINE,),
    verdict.RECEIVE_WINDOW: (throughput_models.RECEIVE_WINDOW,),
    verdict.SEND_BUFFER: (throughput_models.SEND_BUFFER,),
    verdict.CONGESTION_WINDOW: (throughput_models.MATHIS, throughput_models.CUBIC),
}
"""By the kind of a verdict: the laws that state its ceiling. The other kinds have no law."""

OF_LOADED_RTT = (throughput_models.RECEIVE_WINDOW, throughput_models.SEND_BUFFER)
"""The laws whose window is filled once in each round trip under load."""


class Ceiling(Struct, frozen=True):
    """The throughput that a law allows all streams, in bytes/s; `named`: the verdict names this law.

    Where it names none (a CPU, the emulator, a slow start, unknown), the ceiling is the law that theory expected to
    limit the cell.
    """

    law: str
    bytes_per_s: float
    named: bool


class Theory(Struct, frozen=True):
    """What theory says of one direction: its streams' windows double each RTT from `initcwnd` segments to the ceiling.

    `loaded_rtt_ns` is the RTT that the streams saw; None where nobody saw it.
    """

    path: TcpPath
    ceiling: Ceiling
    initcwnd: int = tcp_path.INITCWND_SEGMENTS
    loaded_rtt_ns: int | None = None

    @property
    def first_window_bytes(self) -> int:
        """The windows of all streams when they begin."""
        return self.initcwnd * tcp_path.mss_bytes(self.path.mtu) * self.path.streams

    @property
    def window_bytes(self) -> float | None:
        """The windows of all streams that carry the ceiling; None at RTT 0, where any window does."""
        loaded = self.ceiling.law in OF_LOADED_RTT and self.loaded_rtt_ns
        rtt_ns = loaded or self.path.rtt_ns
        return self.ceiling.bytes_per_s * rtt_ns / NS if rtt_ns else None

    @property
    def slow_start_s(self) -> float:
        """How long the windows double."""
        window = self.window_bytes
        return self.path.rtt_ns / NS * math.log2(max(1.0, window / self.first_window_bytes)) if window else 0.0

    @property
    def full_queue_rtt_ns(self) -> int | None:
        """The RTT with a full bottleneck queue, where somebody chose its buffer."""
        buffer = self.path.buffer_bytes
        return None if buffer is None else self.path.rtt_ns + round(buffer * 8 * NS / self.path.rate_bps)

    def window_at(self, time_s: float) -> float | None:
        """The windows of all streams at a time of the run; None at RTT 0."""
        window = self.window_bytes
        if window is None:
            return None
        if time_s >= self.slow_start_s:
            return max(window, float(self.first_window_bytes))
        return self.first_window_bytes * float(2 ** (time_s * NS / self.path.rtt_ns))

    def rates(self, intervals: Sequence[Interval]) -> list[float]:
        """The mean throughput of each interval, in bytes/s."""
        return [(self._carried(i.end_s) - self._carried(i.start_s)) / (i.end_s - i.start_s) for i in intervals]

    def _carried(self, time_s: float) -> float:
        """The bytes from the start of the run to a time of it."""
        if time_s <= 0:
            return 0.0
        args = (self.path, self.ceiling.bytes_per_s, round(time_s * NS), self.initcwnd)
        return throughput_models.whole_run_bytes_per_s(*args) * time_s


def ceiling_of(judgement: Judgement) -> Ceiling:
    """The ceiling that a verdict names; without one, the law that theory expected to limit the cell."""
    named = [law for law in LAWS_OF.get(judgement.kind, ()) if law in judgement.laws]
    if not named:
        return Ceiling(judgement.predicted_limit, judgement.predicted_bytes_per_s, named=False)
    law = min(named, key=lambda one: judgement.laws[one])
    return Ceiling(law, judgement.laws[law], named=True)
