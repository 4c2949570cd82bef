"""A change to one lane: only what is named changes, all else stays. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from emulator.model import Buffer, Impairment, Lane, split_delays


@dataclass(frozen=True)
class Change:
    """What to change on a lane; None leaves it as it is.

    An RTT alone splits evenly anew. A rate of 0 takes the bottleneck away, an empty buffer (`{}`) means one BDP.
    `outbound` and `inbound` say which directions all but the delays are meant for. `further` are more fields of
    Impairment, by name. A plain loss takes the place of a model, and the other way round. `off` True leaves all but
    the bottleneck on file but without effect; False puts it into effect again, as a new delay does.
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
    further: Mapping[str, Any] = field(default_factory=dict)

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
        fields: dict[str, Any] = {"delay_ns": delay_ns}
        if self.jitter_ns is not None:
            fields["jitter_ns"] = self.jitter_ns
        if self.loss_p32 is not None:
            fields |= {"loss_p32": self.loss_p32, "loss_model": None}
        if self.rate_bps is not None:
            fields["rate_bps"] = self.rate_bps or None
        if self.buffer is not None:
            fields["buffer"] = Buffer(**self.buffer) if self.buffer else None
        return replace(now, **(fields | dict(self.further)))
