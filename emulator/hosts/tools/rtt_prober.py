"""The RTT of a lane while it is idle and while streams run: by irtt if both ends have it, else by ping."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import Struct

from emulator.analysis import latency_histogram
from emulator.analysis.latency_histogram import Latency, Probe
from emulator.errors import MeasureError, MissingError
from emulator.hosts.tools import irtt, ping
from emulator.hosts.tools.process import Completed, ProgramHost
from emulator.system.lateness import Deadline

IDLE_PROBES = 20
MOST_PROBES = 100
_PATIENCE_S = 10.0
_POLL_S = 0.05


@dataclass
class LoadedRtt:
    """The RTT beside a workload, known after its end; None with the reason when it could not be measured."""

    latency: Latency | None = None
    failure: str = ""

    def known(self) -> Latency:
        """The RTT. Raises MeasureError with the reason when it could not be measured."""
        if self.latency is None:
            raise MeasureError(self.failure)
        return self.latency


class Prober(Struct, frozen=True):
    """Probes from one host to the address of another, over a lane of `rtt_ns`.

    `patience` times as long as on an idle machine the tools wait for answers.
    """

    host: ProgramHost
    address: str
    rtt_ns: int
    by_irtt: bool
    precise: bool
    patience: float = 1

    @property
    def what(self) -> str:
        """What it measures, for messages."""
        return f"the idle lane's RTT by {'irtt' if self.by_irtt else 'ping'}"

    def idle(self) -> Latency:
        """Probe the idle lane. Raises MeasureError."""
        interval_s = self._interval_s(0)
        argv, longest_s = self._argv(IDLE_PROBES * interval_s, interval_s)
        deadline = Deadline(_PATIENCE_S)
        while True:
            done = self.host.run(argv, longest_s)
            # The server may still be starting: its port then refuses connections.
            if "refused" not in done.stderr or deadline.passed():
                return self._latency(done, interval_s)
            time.sleep(_POLL_S)

    @contextlib.contextmanager
    def beside(self, duration_s: float) -> Iterator[LoadedRtt]:
        """Probe while the block runs; what was found is known after the block.

        A tool that fails is no error: the block's own work is done, and cannot be repeated for the sake of the probes.
        """
        interval_s, found = self._interval_s(duration_s), LoadedRtt()
        argv, longest_s = self._argv(duration_s, interval_s)
        with self.host.start(argv) as program:
            yield found
            try:
                found.latency = self._latency(program.wait(longest_s), interval_s)
            except MeasureError as error:
                found.failure = str(error)

    def _interval_s(self, duration_s: float) -> float:
        if not self.by_irtt:
            return ping.GRID_S
        return max(2 * irtt.SHORTEST_INTERVAL_S, round(duration_s / MOST_PROBES, 3))

    def _argv(self, duration_s: float, interval_s: float) -> tuple[list[str], float]:
        if self.by_irtt:
            longest_s = irtt.longest_s(duration_s, self.rtt_ns) * self.patience
            return irtt.client_argv(self.address, duration_s, interval_s, self.rtt_ns, self.patience), longest_s
        count = max(1, round(duration_s / ping.GRID_S))
        longest_s = ping.longest_s(count, self.rtt_ns) * self.patience
        return ping.argv(self.address, count, self.precise, self.patience), longest_s

    def _latency(self, done: Completed, interval_s: float) -> Latency:
        every_ns = round(interval_s * 1e9)
        if not self.by_irtt:
            found = ping.parse(done.stdout)
            # Without -D ping prints no send times: no gap can be seen, so the place of the lost echoes has no effect.
            answers = (*found.rtts_ns, *(None,) * found.lost)
            probes = [Probe(number * every_ns, rtt_ns) for number, rtt_ns in enumerate(answers)]
            return latency_histogram.summarize("ping", probes, every_ns)
        if done.exit_code:
            words = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[-1]
            raise MeasureError(f"irtt got no answer from its server: {words}")
        probes = irtt.parse(done.stdout)
        if all(probe.rtt_ns is None for probe in probes):
            raise MeasureError(f"none of irtt's {len(probes)} probes was answered")
        return latency_histogram.summarize("irtt", probes, every_ns)


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
