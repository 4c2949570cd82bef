"""The RTT of a lane while it is idle and while streams run: by irtt if both ends have it, else by ping."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from emulator.analysis import latency_histogram
from emulator.analysis.latency_histogram import AnsweredProbe, Latency
from emulator.errors import MeasureError, MissingError
from emulator.hosts.tools import irtt, ping
from emulator.hosts.tools.process import Completed, ProgramHost

IDLE_PROBES = 20
MOST_PROBES = 100
_PATIENCE_S = 10.0
_POLL_S = 0.05


@dataclass(frozen=True)
class Prober:
    """Probes from one host to the address of another, over a lane of `rtt_ns`."""

    host: ProgramHost
    address: str
    rtt_ns: int
    by_irtt: bool
    precise: bool

    def idle(self) -> Latency:
        """Probe the idle lane. Raises MeasureError."""
        interval_s = self._interval_s(0)
        argv, longest_s = self._argv(IDLE_PROBES * interval_s, interval_s)
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            done = self.host.run(argv, longest_s)
            # The server may still be starting: its port then refuses connections.
            if "refused" not in done.stderr or time.monotonic() > deadline_s:
                return self._latency(done, interval_s)
            time.sleep(_POLL_S)

    @contextlib.contextmanager
    def beside(self, duration_s: float) -> Iterator[list[Latency]]:
        """Probe while the block runs; after the block the list holds the one series. Raises MeasureError."""
        interval_s, found = self._interval_s(duration_s), list[Latency]()
        argv, longest_s = self._argv(duration_s, interval_s)
        with self.host.start(argv) as program:
            yield found
            found.append(self._latency(program.wait(longest_s), interval_s))

    def _interval_s(self, duration_s: float) -> float:
        if not self.by_irtt:
            return ping.GRID_S
        return max(2 * irtt.SHORTEST_INTERVAL_S, round(duration_s / MOST_PROBES, 3))

    def _argv(self, duration_s: float, interval_s: float) -> tuple[list[str], float]:
        if self.by_irtt:
            longest_s = irtt.longest_s(duration_s, self.rtt_ns)
            return irtt.client_argv(self.address, duration_s, interval_s, self.rtt_ns), longest_s
        count = max(1, round(duration_s / ping.GRID_S))
        return ping.argv(self.address, count, self.precise), ping.longest_s(count, self.rtt_ns)

    def _latency(self, done: Completed, interval_s: float) -> Latency:
        every_ns = round(interval_s * 1e9)
        if not self.by_irtt:
            found = ping.parse(done.stdout)
            probes = [AnsweredProbe(number * every_ns, rtt_ns) for number, rtt_ns in enumerate(found.rtts_ns)]
            return latency_histogram.summarize("ping", probes, found.lost, every_ns)
        probes, lost = irtt.parse(done.checked().stdout)
        if not probes:
            raise MeasureError(f"no answer to any of irtt's {lost} probes")
        return latency_histogram.summarize("irtt", probes, lost, every_ns)


@contextlib.contextmanager
def between(sender: ProgramHost, receiver: ProgramHost, address: str, rtt_ns: int, precise: bool) -> Iterator[Prober]:
    """A prober for the time of a block, with an irtt server at the receiver if both ends have irtt."""
    with contextlib.ExitStack() as stack:
        by_irtt = _has_irtt(sender) and _has_irtt(receiver)
        if by_irtt:
            stack.enter_context(receiver.start(irtt.server_argv()))
        yield Prober(sender, address, rtt_ns, by_irtt, precise)


def _has_irtt(host: ProgramHost) -> bool:
    try:
        return host.run(["irtt", "version"], _PATIENCE_S).exit_code == 0
    except MissingError:
        return False
