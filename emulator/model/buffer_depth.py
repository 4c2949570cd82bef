"""The depth of a bottleneck's buffer as an axis of a sweep has it: a share of rate x RTT, or a fixed depth. Pure."""

from __future__ import annotations

import re
from fractions import Fraction

from msgspec import Struct

from emulator import units
from emulator.model.impairment import Buffer

MOST_BDP = 1000
_OF_BDP = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*bdp", re.IGNORECASE)


class BufferDepth(Struct, frozen=True):
    """`bdp` times the bandwidth-delay product, else `fixed`."""

    bdp: Fraction | None = None
    fixed: Buffer | None = None

    @classmethod
    def parse(cls, text: str) -> BufferDepth:
        """The depth of a text such as "0.25bdp", "8MiB", "100p" or "5ms". Raises ValueError."""
        if found := _OF_BDP.fullmatch(text.strip()):
            bdp = Fraction(found[1])
            if not 0 < bdp <= MOST_BDP:
                raise ValueError(f"{text!r} is not within 0..{MOST_BDP} bdp: use 0.25bdp, 1bdp or 4bdp")
            return cls(bdp)
        try:
            return cls(fixed=Buffer(**units.parse_buffer(text)))
        except ValueError as error:
            raise ValueError(f"{error}; or use a share of the BDP (0.25bdp)") from None

    def __str__(self) -> str:
        """As a user writes it, with a blank before the unit: "0.25 bdp"."""
        if self.bdp is not None:
            return f"{float(self.bdp):g} bdp"
        assert self.fixed
        parts = {"bytes": self.fixed.bytes, "packets": self.fixed.packets, "ns": self.fixed.ns}
        return units.format_buffer({k: v for k, v in parts.items() if v is not None})  # type: ignore[arg-type]

    def before(self, rate_bps: int, rtt_ns: int, frame_bytes: int) -> Buffer:
        """The buffer before a link of this rate, on a path of this RTT; a share of a BDP has room for one frame at
        least."""
        if self.bdp is None:
            assert self.fixed
            return self.fixed
        share = self.bdp * rate_bps * rtt_ns / (8 * 10**9)
        return Buffer(bytes=max(frame_bytes, -(-share.numerator // share.denominator)))
