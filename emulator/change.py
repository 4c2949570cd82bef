"""A change to one lane: only what is named changes, all else stays. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from emulator.model import Buffer, Impairment, Lane, split_delays


@dataclass(frozen=True)
class Change:
    """What to change on a lane; None leaves it as it is.

    An RTT alone splits evenly anew. A rate of 0 takes the bottleneck away, an empty buffer (`{}`) means one BDP.
    `outbound` and `inbound` say which directions jitter, loss, rate and buffer are meant for. `off` True leaves
    delay, jitter and loss on file but without effect; False puts them into effect again, as a new delay does.
    """

    rtt_ns: int | None = None
    outbound_delay_ns: int | None = None
    inbound_delay_ns: int | None = None
    jitter_ns: int | None = None
    loss_p32: int | None = None
    rate_bps: int | None = None
    buffer: dict[str, int] | None = None
    outbound: bool = True
    inbound: bool = True
    off: bool | None = None

    def apply(self, lane: Lane) -> Lane:
        """The lane after the change. Raises ValueError when that would contradict itself."""
        outbound_ns, inbound_ns = self._delays(lane)
        return replace(
            lane,
            outbound=self._direction(lane.outbound, outbound_ns, named=self.outbound),
            inbound=self._direction(lane.inbound, inbound_ns, named=self.inbound),
            off=self._off(lane),
        )

    def _off(self, lane: Lane) -> bool:
        delays = (self.rtt_ns, self.outbound_delay_ns, self.inbound_delay_ns)
        return (lane.off and all(delay is None for delay in delays)) if self.off is None else self.off

    def _delays(self, lane: Lane) -> tuple[int, int]:
        out, back = self.outbound_delay_ns, self.inbound_delay_ns
        if self.rtt_ns is None:
            out = lane.outbound.delay_ns if out is None else out
            back = lane.inbound.delay_ns if back is None else back
        return split_delays(self.rtt_ns, out, back)

    def _direction(self, now: Impairment, delay_ns: int, *, named: bool) -> Impairment:
        if not named:
            return replace(now, delay_ns=delay_ns)
        return Impairment(
            delay_ns,
            jitter_ns=now.jitter_ns if self.jitter_ns is None else self.jitter_ns,
            loss_p32=now.loss_p32 if self.loss_p32 is None else self.loss_p32,
            rate_bps=now.rate_bps if self.rate_bps is None else self.rate_bps or None,
            buffer=now.buffer if self.buffer is None else Buffer(**self.buffer) if self.buffer else None,
        )
