"""The laws that bound a path: line, windows, loss, slow start. Each gives a throughput; the minimum binds. Pure."""

from __future__ import annotations

import math

from msgspec import Struct

from emulator.analysis import tcp_path
from emulator.analysis.tcp_path import NS, TcpPath

LINE, RECEIVE_WINDOW, SEND_BUFFER, MATHIS, CUBIC, SLOW_START = (
    "line", "receive window", "send buffer", "Mathis", "CUBIC", "slow start",
)  # fmt: skip
SLOW_START_SHARE = 0.9
"""A run whose mean is below this share of the steady rate is limited by its slow start."""


class Windows(Struct, frozen=True):
    """The most that each end's buffer lets one stream have in flight, in bytes of payload; None: no limit."""

    receive_bytes: int | None = None
    send_bytes: int | None = None


class Law(Struct, frozen=True):
    """The throughput that one law allows all streams together, in bytes/s; infinite where it does not apply."""

    name: str
    bytes_per_s: float


class Prediction(Struct, frozen=True):
    """All laws by rising throughput, and the mean of a run of a given length including its slow start."""

    laws: tuple[Law, ...]
    mean_bytes_per_s: float

    @property
    def bytes_per_s(self) -> float:
        """The steady throughput."""
        return self.laws[0].bytes_per_s

    @property
    def limit(self) -> str:
        """The law that limits the steady throughput."""
        return self.laws[0].name

    @property
    def run_limit(self) -> str:
        """What limits the mean of the whole run: its slow start, when it costs more than a tenth."""
        return SLOW_START if self.mean_bytes_per_s < SLOW_START_SHARE * self.bytes_per_s else self.limit

    def after(self, name: str) -> Law:
        """The law that would bind if this one did not."""
        return next(law for law in self.laws if law.name != name)


def predict(
    path: TcpPath, windows: Windows, run_ns: int = 10 * NS, loaded_rtt_ns: int | None = None,
    initcwnd: int = tcp_path.INITCWND_SEGMENTS,
) -> Prediction:  # fmt: skip
    """Predict the throughput of the path. `loaded_rtt_ns` is the RTT with queues; None: the lane's own RTT."""
    seen_ns = path.rtt_ns if loaded_rtt_ns is None else loaded_rtt_ns
    steady = [
        Law(LINE, path.line_bytes_per_s),
        Law(RECEIVE_WINDOW, path.streams * _window(windows.receive_bytes, seen_ns)),
        Law(SEND_BUFFER, path.streams * _window(windows.send_bytes, seen_ns)),
        *_loss_laws(path),
    ]
    laws = tuple(sorted(steady, key=lambda law: law.bytes_per_s))
    return Prediction(laws, whole_run_bytes_per_s(path, laws[0].bytes_per_s, run_ns, initcwnd))


def _window(window_bytes: int | None, rtt_ns: int) -> float:
    return math.inf if window_bytes is None else tcp_path.window_bytes_per_s(window_bytes, rtt_ns)


def _loss_laws(path: TcpPath) -> list[Law]:
    """Mathis for Reno; for CUBIC the larger of its own window and Reno's (RFC 9438 section 4.3); none for BBR.

    Other algorithms count as Reno's kind: they halve their window, or nearly so.
    """
    heeds = path.loss and path.rtt_ns and not path.congestion_control.startswith("bbr")
    if not heeds:
        return [Law(MATHIS, math.inf), Law(CUBIC, math.inf)]
    one = path.streams * tcp_path.mss_bytes(path.mtu) * NS / path.rtt_ns
    reno, cubic = (
        one * window
        for window in (
            tcp_path.reno_window_segments(path.loss),
            tcp_path.cubic_window_segments(path.loss, path.rtt_ns),
        )
    )
    if path.congestion_control == "cubic" and cubic > reno:
        return [Law(MATHIS, math.inf), Law(CUBIC, cubic)]
    return [Law(MATHIS, reno), Law(CUBIC, math.inf)]


def whole_run_bytes_per_s(
    path: TcpPath, steady_bytes_per_s: float, run_ns: int, initcwnd: int = tcp_path.INITCWND_SEGMENTS
) -> float:
    """The mean of a run whose windows start at `initcwnd` segments and double each RTT up to the steady rate."""
    if not path.rtt_ns:
        return steady_bytes_per_s
    first = initcwnd * tcp_path.mss_bytes(path.mtu) * path.streams
    window = max(first, round(steady_bytes_per_s * path.rtt_ns / NS))
    doubling_ns = min(run_ns, round(path.rtt_ns * math.log2(window / first)))
    # The integral of first/rtt * 2^(t/rtt).
    doubling_bytes = first / math.log(2) * (2 ** (doubling_ns / path.rtt_ns) - 1)
    return min(steady_bytes_per_s, (doubling_bytes + steady_bytes_per_s * (run_ns - doubling_ns) / NS) / (run_ns / NS))
