"""How packets are lost: evenly, in bursts (Gilbert-Elliott), or by four states. Pure.

Written "1%", "1% burst 5" (one in a hundred, five in a row on average), "gilbert P R [1-H [1-K]]" or
"4-state P13 P31 P32 P23 P14"; every probability is per packet. Source: loss_gilb_ell and loss_4state of
net/sched/sch_netem.c (Linux 6.12); Salsano, Ludovici, Ordine, "Definition of a general and intuitive loss model".
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import astuple

from emulator.units import format_probability, parse_probability_p32

P32 = 2**32 - 1
"""A probability of one, as sch_netem stores it (u32)."""


class GilbertElliott(Struct, frozen=True):
    """Two states, good and bad: `p_p32` leads from good to bad, `r_p32` back, `bad_p32` (1-h) and `good_p32` (1-k)
    are the losses in them. Probabilities in parts per 2^32 - 1."""

    p_p32: int
    r_p32: int
    bad_p32: int = P32
    good_p32: int = 0

    def __post_init__(self) -> None:
        _check(self)
        if not self.r_p32 and self.p_p32:
            raise ValueError("r is 0%: the lane would never leave the bad state; use a larger r")
        if not self.p_p32 and not self.good_p32:
            raise ValueError("p is 0%: no packet would ever be lost; use a loss of 0")

    @property
    def bad_share(self) -> float:
        """The share of packets that meet the bad state."""
        return self.p_p32 / (self.p_p32 + self.r_p32)

    @property
    def mean_loss(self) -> float:
        """The share of packets lost in the long run."""
        return (self.bad_share * self.bad_p32 + (1 - self.bad_share) * self.good_p32) / P32

    @property
    def mean_burst(self) -> float:
        """The mean number of packets lost in a row: losses divided by losses that a received packet follows."""
        bad, good, p, r = (value / P32 for value in (self.bad_p32, self.good_p32, self.p_p32, self.r_p32))
        ends = self.bad_share * bad * (r * (1 - good) + (1 - r) * (1 - bad))
        ends += (1 - self.bad_share) * good * (p * (1 - bad) + (1 - p) * (1 - good))
        return self.mean_loss / ends if ends else math.inf

    def kernel(self) -> tuple[int, int, int, int]:
        """(p, r, h, k1) as the kernel stores them: its h is what *survives* the bad state, its k1 is 1-k.

        A bad state that loses everything has h = 0; tc's own "1-h 0%" loses nothing at all.
        """
        return self.p_p32, self.r_p32, P32 - self.bad_p32, self.good_p32

    def __str__(self) -> str:
        last = [self.bad_p32, self.good_p32] if self.good_p32 else [self.bad_p32] if self.bad_p32 != P32 else []
        return " ".join(["gilbert", *map(format_probability, [self.p_p32, self.r_p32, *last])])


class FourState(Struct, frozen=True):
    """Gap and burst, each with received and lost packets: state 1 gap received, 2 burst received, 3 burst lost,
    4 alone lost in a gap. `pAB_p32` leads from A to B; from 4 it always goes back to 1."""

    p13_p32: int
    p31_p32: int
    p32_p32: int
    p23_p32: int
    p14_p32: int

    def __post_init__(self) -> None:
        _check(self)
        # The kernel compares with sums in 32 bits, which would wrap around.
        if self.p13_p32 + self.p14_p32 > P32:
            raise ValueError("p13 and p14 add up to more than 100%")
        if self.p31_p32 + self.p32_p32 > P32:
            raise ValueError("p31 and p32 add up to more than 100%")
        if not self.p31_p32 or (self.p32_p32 and not self.p23_p32):
            raise ValueError("a burst would never end: use p31 above 0%, and p23 above 0% where p32 is")

    @property
    def mean_loss(self) -> float:
        """The share of packets lost in the long run."""
        gap_lost = self.p14_p32 / P32
        burst_lost = self.p13_p32 / self.p31_p32
        burst_received = burst_lost * self.p32_p32 / self.p23_p32 if self.p32_p32 else 0.0
        return (gap_lost + burst_lost) / (1 + gap_lost + burst_lost + burst_received)

    @property
    def mean_burst(self) -> float:
        """The packets lost in a row on average; a loss alone in a gap is a burst of one."""
        gap_lost, burst_lost = self.p14_p32 / P32, self.p13_p32 / self.p31_p32
        ends = gap_lost + burst_lost * (self.p31_p32 + self.p32_p32) / P32
        return (gap_lost + burst_lost) / ends if ends else math.inf

    def kernel(self) -> tuple[int, int, int, int, int]:
        """(p13, p31, p32, p23, p14)."""
        return self.p13_p32, self.p31_p32, self.p32_p32, self.p23_p32, self.p14_p32

    def __str__(self) -> str:
        return " ".join(["4-state", *map(format_probability, self.kernel())])


LossModel = GilbertElliott | FourState


def _check(model: LossModel) -> None:
    if not all(0 <= value <= P32 for value in astuple(model)):
        raise ValueError("a probability of the loss model is not within 0%..100%")


def from_burst(loss_p32: int, burst: Fraction) -> GilbertElliott:
    """A model whose losses come `burst` in a row on average. Raises ValueError for an impossible combination."""
    if burst < 1:
        raise ValueError("a burst of less than one packet is impossible: use 1 or more")
    if not 0 < loss_p32 < P32:
        raise ValueError("bursts need a loss above 0% and below 100%")
    leave = 1 / burst
    enter = loss_p32 * leave / (P32 - loss_p32)
    if enter > 1:
        raise ValueError(f"a loss of {format_probability(loss_p32)} comes in longer bursts than {float(burst):g}")
    return GilbertElliott(_p32(enter), _p32(leave))


def _p32(share: Fraction) -> int:
    return int(share * P32 + Fraction(1, 2))


def parse(text: str) -> int | LossModel:
    """Parse a loss (see above): a plain probability in parts per 2^32 - 1, or a model. Raises ValueError."""
    first, *words = text.split() or [""]
    if first == "gilbert":
        if not 2 <= len(words) <= 4:
            raise ValueError(
                f"{text!r} is not gilbert P R [1-H [1-K]]: use two to four probabilities, as in gilbert 1% 20%"
            )
        return GilbertElliott(*map(_probability, words))
    if first == "4-state":
        if len(words) != 5:
            raise ValueError(f"{text!r} is not 4-state P13 P31 P32 P23 P14: use five probabilities")
        return FourState(*map(_probability, words))
    if words[:1] == ["burst"] and len(words) == 2:
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", words[1]):
            raise ValueError(f"{words[1]!r} is not a mean burst length: use a number of packets such as 5")
        return from_burst(parse_probability_p32(first), Fraction(words[1]))
    if "every" in words or first == "every":
        raise ValueError(f"{text!r}: sch_netem has no periodic loss; use 1%, 1% burst 5, gilbert or 4-state")
    return parse_probability_p32(text)


def _probability(text: str) -> int:
    return P32 if text in ("1", "100%") else parse_probability_p32(text)


def format_loss(loss_p32: int, model: LossModel | None) -> str:
    """A loss as text that `parse` reads back."""
    return str(model) if model else format_probability(loss_p32)
