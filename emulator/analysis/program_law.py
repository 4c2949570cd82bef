"""The law of a program: completion time = own time + round trips x RTT + bytes / rate, fitted over the RTTs of a grid.

In virtual time the repeats of a cell are nearly equal, so their scatter says nothing about the law. Its intervals come
from the residuals of the RTTs' means instead, by ordinary least squares and Student's t. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from emulator import units
from emulator.analysis import tcp_path
from emulator.analysis.statistics import t_99
from emulator.analysis.tcp_path import NS

HOLDS_SHARE = 0.05
"""A law holds when every cell is within this share of it, or within `HOLDS_S`."""
HOLDS_S = 0.001
LEAST_RTTS = 2
INTERVAL_RTTS = 3
"""Two RTTs determine a line and leave no residual, so an interval needs three."""
BENT_SHARE = 0.05


class LawPoint(Struct, frozen=True):
    """One cell: how long each of its runs took, and the payload in the slower direction, None where it is unknown."""

    rtt_ns: int
    rate_bps: int
    bytes: int | None
    completion_s: tuple[float, ...]
    mtu: int = 1500
    retransmits: int = 0

    @property
    def mean_s(self) -> float:
        """The mean of all runs."""
        return fmean(self.completion_s)

    @property
    def line_s(self) -> float:
        """The time that the bytes take at the line's rate, with their headers."""
        return line_s(self.bytes, self.rate_bps, self.mtu)

    @property
    def tolerance_s(self) -> float:
        """How far a law that holds may be from this cell."""
        return max(HOLDS_SHARE * self.mean_s, HOLDS_S)


class Forecast(Struct, frozen=True):
    """A predicted completion time and its 99 % half-width, infinite without an interval.

    The interval is one for the mean of a cell. `beyond`: the RTT is outside those that were measured.
    """

    completion_s: float
    half_s: float
    beyond: bool

    def __str__(self) -> str:
        return seconds_text(self.completion_s, self.half_s)


class NoLaw(Struct, frozen=True):
    """Why the cells have no law."""

    reason: str


class ProgramLaw(Struct, frozen=True):
    """The fitted law. Half-widths are of 99 % intervals, infinite where there is no interval.

    `hidden_line`: the bytes add no time of their own, because a window makes them wait for round trips. `scale_s` is
    the standard deviation of the residuals. `r_squared` compares the fitted with the measured completion times.
    """

    round_trips: float
    round_trips_half: float
    own_s: float
    own_half_s: float
    hidden_line: bool
    scale_s: float
    r_squared: float
    points: tuple[LawPoint, ...]

    @property
    def rtts_ns(self) -> tuple[int, ...]:
        """The measured RTTs, rising."""
        return rtts_of(self.points)

    def completion_s(self, point: LawPoint) -> float:
        """What the law says of a cell."""
        return self.predict(point.rtt_ns, point.rate_bps, point.bytes, point.mtu).completion_s

    def predict(self, rtt_ns: int, rate_bps: int, bytes: int | None, mtu: int = 1500) -> Forecast:
        """The completion time at an RTT, a rate and a size, with a prediction interval."""
        rtts, at = [rtt / NS for rtt in self.rtts_ns], rtt_ns / NS
        wire_s = 0.0 if self.hidden_line else line_s(bytes, rate_bps, mtu)
        middle, spread = fmean(rtts), _spread(rtts)
        half = math.inf
        if len(rtts) >= INTERVAL_RTTS:
            share = 1 + 1 / len(rtts) + (at - middle) ** 2 / spread
            half = t_99(len(rtts) - 2) * self.scale_s * math.sqrt(share)
        value = self.own_s + self.round_trips * at + wire_s
        return Forecast(value, half, not min(rtts) <= at <= max(rtts))

    @property
    def worst(self) -> LawPoint:
        """The cell that is farthest from the law, compared with what it may be off."""
        return max(self.points, key=lambda one: abs(one.mean_s - self.completion_s(one)) / one.tolerance_s)

    @property
    def worst_share(self) -> float:
        """How much the worst cell differs from the law, as a share of its time, with the sign of measured - law."""
        return _share(self.worst.mean_s - self.completion_s(self.worst), self.worst.mean_s)

    @property
    def objection(self) -> str:
        """Why the law does not hold; empty when it does."""
        worst, least = self.worst, min(self.points, key=lambda one: one.mean_s)
        if abs(worst.mean_s - self.completion_s(worst)) > worst.tolerance_s:
            says, was = seconds_text(self.completion_s(worst)), seconds_text(worst.mean_s)
            return f"a line says {says} at {_cell_text(worst, self.points)}, measured {was}: {_shape(self.points)}"
        if self.round_trips * max(self.rtts_ns) / NS < -least.tolerance_s:
            return f"the time falls while the RTT rises ({self.round_trips:.2f} round trips): {_shape(self.points)}"
        if self.own_s < -least.tolerance_s:
            return f"a line would need {seconds_text(self.own_s)} at RTT 0, less than nothing: {_shape(self.points)}"
        return ""


class LeftOut(Struct, frozen=True):
    """A cell, and what the law of all other RTTs predicts for it."""

    point: LawPoint
    forecast: Forecast

    @property
    def error(self) -> float:
        """How far the prediction is from the measured mean, as a share of it."""
        return _share(self.forecast.completion_s - self.point.mean_s, self.point.mean_s)


def line_s(bytes: int | None, rate_bps: int, mtu: int) -> float:
    """The time of a payload on the line, in full segments; 0 when it is unknown."""
    return (bytes or 0) / tcp_path.line_bytes_per_s(rate_bps, mtu)


def rtts_of(points: Iterable[LawPoint]) -> tuple[int, ...]:
    """The different RTTs, rising."""
    return tuple(sorted({one.rtt_ns for one in points}))


def fit(points: Sequence[LawPoint]) -> ProgramLaw | NoLaw:
    """The law of all these cells. Look at its `objection` before its figures.

    The bytes add their time on the line, unless such a law does not hold and the one without that time does.
    """
    rtts = rtts_of(points)
    if len(rtts) < LEAST_RTTS:
        seen = f"only {units.format_duration(rtts[0])} has a valid cell" if rtts else "no cell is valid"
        return NoLaw(f"{seen}: a law needs two RTTs, and three for intervals")
    plain = _least_squares(points, hidden_line=False)
    if plain.objection and any(one.bytes for one in points):
        hidden = _least_squares(points, hidden_line=True)
        return plain if hidden.objection else hidden
    return plain


def widest(points: Sequence[LawPoint]) -> ProgramLaw | NoLaw:
    """The law of all cells; where it does not hold, that of the widest range of at least three RTTs where one does."""
    whole = fit(points)
    if isinstance(whole, NoLaw) or not whole.objection:
        return whole
    rtts = rtts_of(points)
    ends = [(low, high) for low, high in combinations(rtts, 2) if rtts.index(high) - rtts.index(low) >= LEAST_RTTS]
    for low, high in sorted(ends, key=lambda pair: pair[0] - pair[1]):
        part = fit([one for one in points if low <= one.rtt_ns <= high])
        if isinstance(part, ProgramLaw) and not part.objection:
            return part
    return NoLaw(whole.objection)


def leave_one_out(points: Sequence[LawPoint]) -> tuple[LeftOut, ...]:
    """For each cell, by RTT, what the cells of all other RTTs predict; empty with fewer than three RTTs."""
    found = []
    for rtt_ns in rtts_of(points):
        law = fit([one for one in points if one.rtt_ns != rtt_ns])
        if isinstance(law, ProgramLaw):
            left = [one for one in points if one.rtt_ns == rtt_ns]
            found += [LeftOut(one, law.predict(rtt_ns, one.rate_bps, one.bytes, one.mtu)) for one in left]
    return tuple(found)


def sentence(law: ProgramLaw | NoLaw, measured: Sequence[LawPoint] = ()) -> str:
    """The law for people, with its prediction for the longest RTT from the others, and its worst residual.

    `measured` are all cells of the column, to name the range where the law holds in a part of them only.
    """
    if isinstance(law, NoLaw):
        return f"no law: {law.reason}"
    if law.objection:
        return f"no law: {law.objection}"
    trips = with_interval(law.round_trips, law.round_trips_half)
    said = f"this program costs {trips} round trips and {seconds_text(law.own_s, law.own_half_s)}"
    if any(one.line_s > HOLDS_S for one in law.points):
        waits = "; its bytes take no time of their own, they wait for round trips"
        said += waits if law.hidden_line else ", and its bytes at the line's rate"
    if rtts_of(measured)[:1] + rtts_of(measured)[-1:] not in ((), law.rtts_ns[:1] + law.rtts_ns[-1:]):
        ends = (units.format_duration(law.rtts_ns[place]) for place in (0, -1))
        said = f"from {' to '.join(ends)} (no line holds for all RTTs) {said}"
    return "; ".join([said, *_checked(law)])


def _checked(law: ProgramLaw) -> list[str]:
    """What tells how well the law predicts."""
    if len(law.rtts_ns) < INTERVAL_RTTS:
        return ["two RTTs give no interval"]
    last = leave_one_out(law.points)[-1]
    was, at = seconds_text(last.point.mean_s), _cell_text(last.point, law.points)
    predicted = seconds_text(last.forecast.completion_s)
    worst = f"worst residual {abs(law.worst_share):.1%} at {_cell_text(law.worst, law.points)}"
    return [f"without {at} in the fit: {predicted} there (measured {was})", worst]


def _least_squares(points: Sequence[LawPoint], *, hidden_line: bool) -> ProgramLaw:
    """Fit the means of each RTT: cells of one RTT and several rates differ from the law together, so they are one."""
    rtts = rtts_of(points)
    x = [rtt / NS for rtt in rtts]
    y = [
        fmean(one.mean_s - (0.0 if hidden_line else one.line_s) for one in points if one.rtt_ns == rtt) for rtt in rtts
    ]
    middle, spread = fmean(x), _spread(x)
    slope = sum((at - middle) * value for at, value in zip(x, y, strict=True)) / spread
    own = fmean(y) - slope * middle
    scale = trips_half = own_half = math.inf
    if len(x) >= INTERVAL_RTTS:
        squares = sum((value - own - slope * at) ** 2 for at, value in zip(x, y, strict=True))
        scale = math.sqrt(squares / (len(x) - 2))
        trips_half = t_99(len(x) - 2) * scale / math.sqrt(spread)
        own_half = t_99(len(x) - 2) * scale * math.sqrt(1 / len(x) + middle**2 / spread)
    law = ProgramLaw(slope, trips_half, own, own_half, hidden_line, scale, 1.0, tuple(points))
    return replace(law, r_squared=_r_squared(law))


def _r_squared(law: ProgramLaw) -> float:
    mean = fmean(one.mean_s for one in law.points)
    total = sum((one.mean_s - mean) ** 2 for one in law.points)
    left = sum((one.mean_s - law.completion_s(one)) ** 2 for one in law.points)
    return 1 - left / total if total else 1.0


def _share(difference_s: float, of_s: float) -> float:
    return difference_s / of_s if of_s else 0.0


def _spread(values: Sequence[float]) -> float:
    return sum((value - fmean(values)) ** 2 for value in values)


def _shape(points: Sequence[LawPoint]) -> str:
    """In which way the times leave a line, and what does that."""
    if any(one.retransmits for one in points):
        return "segments were sent again, and how many round trips a loss costs is chance"
    steps = _steps(points)
    if len(steps) > 1 and steps[-1] > (1 + BENT_SHARE) * steps[0]:
        return "it bends up, because slow start or a window limits the bytes at long RTTs only"
    if len(steps) > 1 and steps[-1] < (1 - BENT_SHARE) * steps[0]:
        return "it bends down, because a timer or work of the program hides the round trips at short RTTs"
    return "the times scatter around it"


def _steps(points: Sequence[LawPoint]) -> list[float]:
    """How many round trips each step from one RTT to the next costs."""
    rtts = rtts_of(points)
    means = [fmean(one.mean_s for one in points if one.rtt_ns == rtt) for rtt in rtts]
    return [NS * (means[n + 1] - means[n]) / (rtts[n + 1] - rtts[n]) for n in range(len(rtts) - 1)]


def _cell_text(point: LawPoint, points: Sequence[LawPoint]) -> str:
    """The cell's RTT, and its rate where several were measured."""
    several = len({one.rate_bps for one in points}) > 1
    rate = f", {units.format_rate(point.rate_bps)}" if several else ""
    return f"{units.format_duration(point.rtt_ns)}{rate}"


def with_interval(value: float, half: float) -> str:
    """A value with as many decimals as its half-width makes sense of, which is rounded up: "18.2 ± 0.1"."""
    if not math.isfinite(half):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    decimals = 3 if half < 0.01 else max(0, -math.floor(math.log10(half)))
    step = 10.0**-decimals
    # A half-width that is a whole number of steps must not gain one by a rounding error.
    return f"{round(value, decimals) + 0.0:.{decimals}f} ± {max(1, math.ceil(half / step - 1e-9)) * step:.{decimals}f}"


def seconds_text(value_s: float, half_s: float = math.inf) -> str:
    """A time for people, with three digits or to its half-width: "6.71 s", "81.6 ms", "0.41 ± 0.02 s"."""
    small = abs(value_s) < 1 and not 1 <= half_s < math.inf
    factor, unit = (1000.0, "ms") if small else (1.0, "s")
    return f"{with_interval(value_s * factor, half_s * factor)} {unit}"
