"""Compares the effect of a direction on a numbered stream with its settings: one row per impairment. Pure.

Every row has a 99.9 % interval around the measured figure (or the tolerance, where nothing is random) and passes when
the requested value lies in it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from emulator.analysis.statistics import (
    Estimate,
    chi_square_geometric,
    distance,
    distance_allowed,
    mean,
    runs,
    share,
    share_of_run,
)
from emulator.model.bottleneck import frame_bytes, wire_bytes
from emulator.model.impairment import Impairment
from emulator.model.jitter_distribution import deviation_ns, reach_ns, table_of
from emulator.model.loss_model import GilbertElliott
from emulator.model.topology import Lane
from emulator.plan.netem_lowering import buffer_bytes, jitter_reach_ns
from emulator.plan.qdisc_values import Shaper

EVERY_NS = 1_000_000
"""The interval between two frames, unless the impairment needs a longer one."""

TRAIN_FRAMES = 4000
"""The most frames that are sent to fill a bottleneck."""

FASTEST_BPS = 4_000_000_000
"""A rate that any sender of a train exceeds."""

RATE_TOLERANCE = 0.005
FEWEST_RUNS = 30


class ReceivedFrame(Protocol):
    """One frame that left the lane (`frame_stream.Arrival`)."""

    @property
    def number(self) -> int: ...
    @property
    def sent_ns(self) -> int: ...
    @property
    def received_ns(self) -> int: ...
    @property
    def flipped(self) -> int: ...
    @property
    def marked(self) -> bool: ...


class ImpairmentCheck(Struct, frozen=True):
    """One figure of one direction. `unit` is "%", "ms", "packets", "Mbit/s", "kB" or empty."""

    what: str
    unit: str
    asked: float
    measured: float
    low: float
    high: float

    @property
    def passed(self) -> bool:
        """Whether the requested value lies in the interval."""
        return self.low <= self.asked <= self.high


def _row(what: str, unit: str, asked: float, found: Estimate, scale: float = 1.0) -> ImpairmentCheck:
    return ImpairmentCheck(what, unit, asked * scale, found.value * scale, found.low * scale, found.high * scale)


def spacing_ns(impairment: Impairment) -> int:
    """The interval at which no frame waits for another; shorter where overtaking must be visible."""
    every = EVERY_NS
    if impairment.jitter_ns:
        every = max(every, jitter_width_ns(impairment))
    if impairment.rate_bps:
        every = max(every, 4 * 8_000_000_000 * 128 // impairment.rate_bps)
    return min(every, impairment.delay_ns // 4) if impairment.reorder_p32 else every


def jitter_width_ns(impairment: Impairment) -> int:
    """The difference between the longest and the shortest delay under jitter."""
    table = table_of(impairment.distribution)
    return reach_ns(impairment.jitter_ns, table) - deviation_ns(impairment.jitter_ns, min(table))


def stream_rows(
    lane: Lane, impairment: Impairment, sent: int, seen: Sequence[ReceivedFrame], slack_ns: int, switched_bytes: int = 0
) -> list[ImpairmentCheck]:
    """The rows that a stream of single frames yields. `slack_ns` is the measurement error of a delay.

    `switched_bytes` is the frames' size where a switch is behind the lane. A switch drops frames from a group address
    (br_handle_frame), and one random bit error can turn the sender's address into one.
    """
    times = Counter(one.number for one in seen)
    lost = [number not in times for number in range(sent)]
    loss, twice = impairment.mean_loss, impairment.duplicate_p32 / 2**32
    gone = 0.0 if impairment.ecn else loss * (1 - twice)
    corrupt = impairment.corruption_p32(frame_bytes(lane.mtu)) / 2**32
    dropped = gone + (1 - gone) * corrupt / (8 * switched_bytes) if switched_bytes else gone
    rows = [_row("loss", "%", dropped, share_of_run(lost), 100)]
    if gone and not twice:
        rows += _burst_rows(impairment, lost)
    if impairment.ecn and loss:
        marks = {one.number for one in seen if one.marked}
        rows.append(_row("ECN marks", "%", loss, share_of_run([number in marks for number in range(sent)]), 100))
    # Both copies arrive: the packet was not drawn to be lost (its copy would replace it), nor the copy after it.
    copies = twice if impairment.ecn else twice * (1 - loss) ** 2
    rows.append(_row("duplicates", "%", copies, share(sum(n > 1 for n in times.values()), sent), 100))
    rows.append(_row("corruption", "%", corrupt, share(sum(one.flipped > 0 for one in seen), len(seen)), 100))
    if impairment.keep_order or not impairment.jitter_ns:
        rows.append(_row("overtaking", "%", impairment.reorder_p32 / 2**32, share(overtakers(seen), len(seen)), 100))
    rows += _delay_rows(impairment, seen, slack_ns)
    return rows


def _burst_rows(impairment: Impairment, lost: Sequence[bool]) -> Iterator[ImpairmentCheck]:
    lengths = runs(lost)
    if len(lengths) < FEWEST_RUNS:
        return
    model = impairment.loss_model
    asked = model.mean_burst if model else 1 / (1 - impairment.mean_loss)
    found = mean(lengths)
    # Runs of equal length give an interval of width 0; the kernel's own step is the least width.
    yield _row("loss in a row", "packets", asked, Estimate(found.value, found.low - 1e-3, found.high + 1e-3))
    plain = isinstance(model, GilbertElliott) and str(model).count(" ") == 2
    if model is None or plain:
        chi, limit = chi_square_geometric(lengths, asked)
        if limit:
            yield ImpairmentCheck("lengths of these (chi2)", "", 0.0, chi, chi - limit, chi)


def overtakers(seen: Sequence[ReceivedFrame]) -> int:
    """The number of frames that arrived before an earlier one; of a duplicated frame only the first copy counts."""
    first = {one.number: index for index, one in reversed(list(enumerate(seen)))}
    least, found = math.inf, 0
    for number, _ in sorted(first.items(), key=lambda item: -item[1]):
        found += number > least
        least = min(least, number)
    return found


def _delay_rows(impairment: Impairment, seen: Sequence[ReceivedFrame], slack_ns: int) -> Iterator[ImpairmentCheck]:
    table = table_of(impairment.distribution)
    asked = [max(0, impairment.delay_ns + deviation_ns(impairment.jitter_ns, value)) for value in table]
    # Frames that overtake have no delay; the row above counts them.
    least = min(asked) - slack_ns if impairment.reorder_p32 else -1
    delays = sorted(one.received_ns - one.sent_ns for one in seen if one.received_ns - one.sent_ns >= least)
    if not delays:
        return
    middle = delays[len(delays) // 2]
    if not impairment.jitter_ns:
        yield ImpairmentCheck(
            "delay", "ms", impairment.delay_ns / 1e6, middle / 1e6, (middle - slack_ns) / 1e6, (middle + slack_ns) / 1e6
        )
    elif not impairment.keep_order or spacing_ns(impairment) >= jitter_width_ns(impairment):
        apart, allowed = distance(delays, asked, slack_ns), distance_allowed(len(delays))
        yield ImpairmentCheck("jitter's shape (KS)", "", 0.0, apart, apart - allowed, apart)


def repeated(first: Sequence[ImpairmentCheck], second: Sequence[ImpairmentCheck]) -> list[ImpairmentCheck]:
    """The rows of `first`, each failed one replaced by the row of `second` about the same figure, if there is one."""
    again = {row.what: row for row in second}
    return [row if row.passed else again.get(row.what, row) for row in first]


def train_frames(lane: Lane, impairment: Impairment) -> int:
    """The number of full-size frames that fill the bottleneck; 0 when they would be too many, or it is too fast."""
    if not impairment.rate_bps or impairment.rate_bps > FASTEST_BPS:
        return 0
    frame = frame_bytes(lane.mtu)
    jitter = 4 * impairment.rate_bps * jitter_reach_ns(impairment) // 8_000_000_000
    frames = (max(jitter, 2 * buffer_bytes(lane, impairment)) + 4 * 131072) // frame + 400
    if frames > TRAIN_FRAMES and not jitter:
        frames = TRAIN_FRAMES
    return frames if frames <= TRAIN_FRAMES else 0


def train_rows(
    lane: Lane, impairment: Impairment, shaper: Shaper, sent: int, seen: Sequence[ReceivedFrame]
) -> list[ImpairmentCheck]:
    """The rows that a train of full-size frames yields: the rate, and the buffer's depth."""
    came = sorted(seen, key=lambda one: one.received_ns)
    later = came[len(came) // 2 :]
    wire = wire_bytes(frame_bytes(lane.mtu), shaper.overhead_bytes, atm=shaper.atm)
    took_ns = later[-1].received_ns - later[0].received_ns if len(later) > 1 else 0
    if not took_ns:
        return []
    bps, asked = (len(later) - 1) * wire * 8e9 / took_ns, float(shaper.rate_bytes_per_s * 8)
    rows = [
        ImpairmentCheck(
            "rate", "Mbit/s", asked / 1e6, bps / 1e6, bps * (1 - RATE_TOLERANCE) / 1e6, bps * (1 + RATE_TOLERANCE) / 1e6
        )
    ]
    waited_ns = max(one.received_ns - one.sent_ns for one in came) - impairment.delay_ns
    full = sent * wire > 2 * shaper.limit_bytes and not impairment.jitter_ns and impairment.aqm == "drop-tail"
    if full:
        # In the frames' own bytes, as the buffer counts them; the buffer had room for the last frame.
        depth = waited_ns * shaper.rate_bytes_per_s / 1e9 * frame_bytes(lane.mtu) / wire
        room = 2 * frame_bytes(lane.mtu)
        rows.append(
            ImpairmentCheck(
                "buffer", "kB", shaper.limit_bytes / 1e3, depth / 1e3, (depth - room) / 1e3, (depth + room) / 1e3
            )
        )
    return rows
