"""Fits a loss model to a recorded series by maximum likelihood and reports how well it fits. Pure.

There are three nested models: independent losses (one parameter); Gilbert's with a bad state that loses every packet
(p, r); Gilbert's with a bad state that loses some packets (p, r, 1-h). In all three the good state loses nothing.
Each loss therefore reveals the state, and the gaps between losses (the number of packets that arrived, 0 or more) are
independent of each other. The gaps follow a mixture of two geometric distributions:

P(gap = g) = A (1-J) J^g + (1-A) (1-L) L^g

p, r and h follow from it (E. N. Gilbert, "Capacity of a burst-noise channel", BSTJ 39, 1960). The gap after the last
loss is censored: its length is at least g with probability A J^g + (1-A) L^g. A series that begins without a loss is
assumed to begin in the good state. The model with the lowest BIC is chosen. The 4-parameter model, whose good state
also loses packets, is not fitted: its gaps are not independent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from emulator.analysis import statistics
from emulator.analysis.statistics import Estimate
from emulator.model.loss_model import P32, GilbertElliott
from emulator.record.gap_fit import Goodness, against_gaps

Loss = int | GilbertElliott

FEWEST_GAPS = 10
"""The least number of losses for the third parameter; fewer cannot determine it."""

ROUNDS, ENOUGH = 2_000, 1e-9
"""Expectation-maximisation ends when a round changes the log-likelihood by no more than this, per gap."""


class Gaps(Struct, frozen=True):
    """The gaps between losses: how often each length occurred. `cut` holds the gaps that the end of a series cut off.

    `entered` counts the series that began in the good state and left it. `calm` counts the packets that arrived before,
    and those of series without any loss.
    """

    whole: Counter[int]
    cut: Counter[int]
    entered: int
    calm: int

    @classmethod
    def of(cls, runs: Sequence[Sequence[bool]]) -> Gaps:
        """Count the gaps of several uninterrupted series; True is a loss."""
        whole, cut, entered, calm = Counter[int](), Counter[int](), 0, 0
        for events in runs:
            at = [number for number, lost in enumerate(events) if lost]
            if not at:
                calm += max(0, len(events) - 1)
                continue
            whole.update(after - before - 1 for before, after in pairwise(at))
            cut[len(events) - 1 - at[-1]] += 1
            if at[0]:
                entered, calm = entered + 1, calm + at[0] - 1
        return cls(whole, cut, entered, calm)


class Mix(Struct, frozen=True):
    """Gilbert's distribution of the gaps, and its log-likelihood. `weight` is A. With `short` 0 the bad state loses
    every packet; with `weight` 1 there is no bad state."""

    weight: float
    long: float
    short: float
    parameters: int
    likelihood: float

    def survival(self, gap: int) -> float:
        """The chance that a gap is at least this long."""
        return self.weight * self.long**gap + (1 - self.weight) * self.short**gap

    def gilbert(self) -> tuple[float, float, float] | None:
        """p, r and 1-h; None when no such chain produces these gaps."""
        if self.weight >= 1:
            return None
        come = self.weight * self.long + (1 - self.weight) * self.short
        h = self.short * self.long / (self.long + self.short - come)
        if not h < 1:
            return None
        p, r = (1 - self.short) * (1 - self.long) / (1 - h), (come - h) / (1 - h)
        return (p, r, 1 - h) if 0 < p <= 1 and 0 < r <= 1 else None


class Fit(Struct, frozen=True):
    """The loss in an impairment's form (a plain probability in parts per 2^32 - 1, or a model), the counts with their
    99.9 % intervals, and the goodness of fit; None where there are too few losses for one."""

    loss: Loss
    share: Estimate
    burst: Estimate | None
    bursts: int
    goodness: Goodness | None


def fit(runs: Sequence[Sequence[bool]]) -> Fit:
    """The likeliest model for several uninterrupted series; True is a loss."""
    flat = [lost for events in runs for lost in events]
    lengths = [length for events in runs for length in statistics.runs(events)]
    share = statistics.share_of_run(flat)
    if not any(flat) or all(flat):
        return Fit(P32 if flat and all(flat) else 0, share, None, len(lengths), None)
    gaps = Gaps.of(runs)
    best, loss = _chosen(gaps, sum(flat) / len(flat))
    goodness = against_gaps(gaps.whole, best.survival, best.parameters)
    return Fit(loss, share, _burst(len(lengths), sum(flat)), len(lengths), goodness)


def _burst(bursts: int, lost: int) -> Estimate:
    """The losses in a row: in all three models each loss ends its burst with the same probability."""
    last = statistics.share(bursts, lost)
    return Estimate(1 / last.value, 1 / last.high, 1 / last.low)


def _chosen(gaps: Gaps, share: float) -> tuple[Mix, Loss]:
    """The best model, as a mixture and as a loss."""
    candidates: list[tuple[Mix, Loss]] = [(_by_chance(gaps), _p32(share))]
    found = [_all_lost(gaps)]
    if gaps.whole.total() >= FEWEST_GAPS:
        found.append(_some_lost(gaps))
    for mix in found:
        chain = mix.gilbert() if mix else None
        if mix and chain:
            candidates.append((mix, GilbertElliott(*map(_p32, chain))))
    count = max(2, gaps.whole.total())
    return min(candidates, key=lambda one: one[0].parameters * math.log(count) - 2 * one[0].likelihood)


def _p32(share: float) -> int:
    return max(1, min(P32, round(share * P32)))


def _by_chance(gaps: Gaps) -> Mix:
    passed = sum(g * n for g, n in (gaps.whole + gaps.cut).items()) + gaps.calm
    # The series has at least one loss, even when it is the first packet.
    losses = max(1, gaps.whole.total() + gaps.entered)
    return _mix(gaps, 1.0, passed / (passed + losses), 0.0, 1)


def _all_lost(gaps: Gaps) -> Mix | None:
    """The bad state loses every packet: a gap of 0 stays in it, and a longer gap is a stay in the good state."""
    came = sum(n for g, n in gaps.whole.items() if g)
    left = came + sum(n for g, n in gaps.cut.items() if g)
    stayed = sum((g - 1) * n for g, n in (gaps.whole + gaps.cut).items() if g) + gaps.calm
    entered = max(1, came + gaps.entered)
    if not left or not stayed:
        return None
    leave, long = left / (left + gaps.whole[0]), stayed / (stayed + entered)
    # P(gap >= 1) = A J = r.
    return _mix(gaps, min(1.0, leave / long), long, 0.0, 2)


def _some_lost(gaps: Gaps) -> Mix | None:
    """Fit the mixture of two geometric distributions by expectation-maximisation."""
    mean = sum(g * n for g, n in gaps.whole.items()) / gaps.whole.total()
    weight, long, short, before = 0.5, max(0.5, mean * 2 / (mean * 2 + 1)), 0.3, -math.inf
    for _ in range(ROUNDS):
        shares = _shares(gaps, weight, long, short)
        weight, long, short = _maximised(gaps, shares)
        if not 0 < short < long < 1 or not 0 < weight < 1:
            return None
        now = _likelihood(gaps, weight, long, short)
        if now - before < ENOUGH * gaps.whole.total():
            return _mix(gaps, weight, long, short, 3)
        before = now
    return _mix(gaps, weight, long, short, 3)


Shares = dict[tuple[int, bool], float]
"""For each (gap length, whether complete): the chance that the gap belongs to the long component."""


def _shares(gaps: Gaps, weight: float, long: float, short: float) -> Shares:
    found: Shares = {}
    for counted, whole in ((gaps.whole, True), (gaps.cut, False)):
        odds = math.log(weight / (1 - weight)) + (math.log((1 - long) / (1 - short)) if whole else 0.0)
        step = math.log(long / short)
        for gap in counted:
            found[gap, whole] = 1 / (1 + math.exp(-max(-700.0, min(700.0, odds + gap * step))))
    return found


def _maximised(gaps: Gaps, shares: Shares) -> tuple[float, float, float]:
    ended, passed = [0.0, float(gaps.entered)], [0.0, float(gaps.calm)]
    total = weight = 0.0
    for counted, whole in ((gaps.whole, True), (gaps.cut, False)):
        for gap, times in counted.items():
            long = shares[gap, whole] * times
            weight, total = weight + long, total + times
            for kind, part in ((1, long), (0, times - long)):
                passed[kind] += part * gap
                ended[kind] += part if whole else 0.0
    short, long = (passed[kind] / max(1e-300, passed[kind] + ended[kind]) for kind in (0, 1))
    return weight / total, long, short


def _mix(gaps: Gaps, weight: float, long: float, short: float, parameters: int) -> Mix:
    return Mix(weight, long, short, parameters, _likelihood(gaps, weight, long, short))


def _likelihood(gaps: Gaps, weight: float, long: float, short: float) -> float:
    """The log-likelihood of these gaps."""
    total = gaps.calm * math.log(max(long, 1e-300)) + gaps.entered * math.log(1 - long)
    for counted, ends in ((gaps.whole, (1 - long, 1 - short)), (gaps.cut, (1.0, 1.0))):
        for gap, times in counted.items():
            chance = weight * ends[0] * long**gap + (1 - weight) * ends[1] * short**gap
            total += times * (math.log(chance) if chance > 0 else -1e3)
    return total
