"""What a direction does to a numbered stream, against what was asked of it: one row per impairment. Pure.

Every row carries an interval of 99.9 % around the measured figure (or the tolerance, where nothing is left to
chance) and passes when what was asked lies in it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

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
from emulator.model.impairment import Impairment
from emulator.model.jitter_distribution import deviation_ns, reach_ns, table_of
from emulator.model.loss_model import GilbertElliott
from emulator.model.topology import Lane
from emulator.plan.netem_lowering import buffer_bytes, frame_bytes, jitter_reach_ns
from emulator.plan.qdisc_values import Shaper
from emulator.plan.tbf_burst import wire_bytes

EVERY_NS = 1_000_000
"""Between two frames, where the impairment does not need more."""

TRAIN_FRAMES = 4000
"""The longest train that is sent to fill a bottleneck."""

FASTEST_BPS = 4_000_000_000
"""What the sender of a train surely exceeds."""

RATE_TOLERANCE = 0.005
FEWEST_RUNS = 30


class ReceivedFrame(Protocol):
    """One frame that came out of the lane (measure.stream.Arrival)."""

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


@dataclass(frozen=True)
class ImpairmentCheck:
    """One figure of one direction. `unit` is how people read it: "%", "ms", "packets", "Mbit/s", "kB" or none."""

    what: str
    unit: str
    asked: float
    measured: float
    low: float
    high: float

    @property
    def passed(self) -> bool:
        """Whether what was asked lies in the interval."""
        return self.low <= self.asked <= self.high


def _row(what: str, unit: str, asked: float, found: Estimate, scale: float = 1.0) -> ImpairmentCheck:
    return ImpairmentCheck(what, unit, asked * scale, found.value * scale, found.low * scale, found.high * scale)


def spacing_ns(wish: Impairment) -> int:
    """How far apart frames must be so that none waits for another; closer where overtaking is to be seen."""
    every = EVERY_NS
    if wish.jitter_ns:
        every = max(every, jitter_width_ns(wish))
    if wish.rate_bps:
        every = max(every, 4 * 8_000_000_000 * 128 // wish.rate_bps)
    return min(every, wish.delay_ns // 4) if wish.reorder_p32 else every


def jitter_width_ns(wish: Impairment) -> int:
    """From the shortest delay that jitter makes to the longest."""
    table = table_of(wish.distribution)
    return reach_ns(wish.jitter_ns, table) - deviation_ns(wish.jitter_ns, min(table))


def stream_rows(
    lane: Lane, wish: Impairment, sent: int, seen: Sequence[ReceivedFrame], slack_ns: int, switched_bytes: int = 0
) -> list[ImpairmentCheck]:
    """All that a stream of single frames shows. `slack_ns`: by how much a measured delay may be off.

    `switched_bytes` is the frames' size where a switch stands behind the lane: it drops what comes from a group's
    address (br_handle_frame), and one bit flipped at random makes the sender's one.
    """
    times = Counter(one.number for one in seen)
    lost = [number not in times for number in range(sent)]
    loss, twice = wish.mean_loss, wish.duplicate_p32 / 2**32
    gone = 0.0 if wish.ecn else loss * (1 - twice)
    corrupt = wish.corruption_p32(frame_bytes(lane.mtu)) / 2**32
    dropped = gone + (1 - gone) * corrupt / (8 * switched_bytes) if switched_bytes else gone
    rows = [_row("loss", "%", dropped, share_of_run(lost), 100)]
    if gone and not twice:
        rows += _burst_rows(wish, lost)
    if wish.ecn and loss:
        marks = {one.number for one in seen if one.marked}
        rows.append(_row("ECN marks", "%", loss, share_of_run([number in marks for number in range(sent)]), 100))
    copies = twice * (1 - gone) ** 2
    rows.append(_row("duplicates", "%", copies, share(sum(n > 1 for n in times.values()), sent), 100))
    rows.append(_row("corruption", "%", corrupt, share(sum(one.flipped > 0 for one in seen), len(seen)), 100))
    if wish.keep_order or not wish.jitter_ns:
        rows.append(_row("overtaking", "%", wish.reorder_p32 / 2**32, share(overtakers(seen), len(seen)), 100))
    rows += _delay_rows(wish, seen, slack_ns)
    return rows


def _burst_rows(wish: Impairment, lost: Sequence[bool]) -> Iterator[ImpairmentCheck]:
    lengths = runs(lost)
    if len(lengths) < FEWEST_RUNS:
        return
    model = wish.loss_model
    asked = model.mean_burst if model else 1 / (1 - wish.mean_loss)
    found = mean(lengths)
    # Runs that are all alike give no width; the kernel's own step is the least there is.
    yield _row("loss in a row", "packets", asked, Estimate(found.value, found.low - 1e-3, found.high + 1e-3))
    plain = isinstance(model, GilbertElliott) and str(model).count(" ") == 2
    if model is None or plain:
        chi, limit = chi_square_geometric(lengths, asked)
        if limit:
            yield ImpairmentCheck("lengths of these (chi2)", "", 0.0, chi, chi - limit, chi)


def overtakers(seen: Sequence[ReceivedFrame]) -> int:
    """The frames that came before one that was sent earlier; of a frame that came twice, the first counts."""
    first = {one.number: index for index, one in reversed(list(enumerate(seen)))}
    least, found = math.inf, 0
    for number, _ in sorted(first.items(), key=lambda item: -item[1]):
        found += number > least
        least = min(least, number)
    return found


def _delay_rows(wish: Impairment, seen: Sequence[ReceivedFrame], slack_ns: int) -> Iterator[ImpairmentCheck]:
    table = table_of(wish.distribution)
    asked = [max(0, wish.delay_ns + deviation_ns(wish.jitter_ns, value)) for value in table]
    # What overtakes has no delay; it is counted above.
    least = min(asked) - slack_ns if wish.reorder_p32 else -1
    delays = sorted(one.received_ns - one.sent_ns for one in seen if one.received_ns - one.sent_ns >= least)
    if not delays:
        return
    middle = delays[len(delays) // 2]
    if not wish.jitter_ns:
        yield ImpairmentCheck(
            "delay", "ms", wish.delay_ns / 1e6, middle / 1e6, (middle - slack_ns) / 1e6, (middle + slack_ns) / 1e6
        )
    elif not wish.keep_order or spacing_ns(wish) >= jitter_width_ns(wish):
        apart, allowed = distance(delays, asked, slack_ns), distance_allowed(len(delays))
        yield ImpairmentCheck("jitter's shape (KS)", "", 0.0, apart, apart - allowed, apart)


def train_frames(lane: Lane, wish: Impairment) -> int:
    """How many full-size frames at once show the bottleneck; 0 when they would be too many, or it is too fast."""
    if not wish.rate_bps or wish.rate_bps > FASTEST_BPS:
        return 0
    frame = frame_bytes(lane.mtu)
    jitter = 4 * wish.rate_bps * jitter_reach_ns(wish) // 8_000_000_000
    frames = (max(jitter, 2 * buffer_bytes(lane, wish)) + 4 * 131072) // frame + 400
    if frames > TRAIN_FRAMES and not jitter:
        frames = TRAIN_FRAMES
    return frames if frames <= TRAIN_FRAMES else 0


def train_rows(
    lane: Lane, wish: Impairment, shaper: Shaper, sent: int, seen: Sequence[ReceivedFrame]
) -> list[ImpairmentCheck]:
    """What a train of full-size frames sent at once shows: the rate, and how deep the buffer is."""
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
    waited_ns = max(one.received_ns - one.sent_ns for one in came) - wish.delay_ns
    full = sent * wire > 2 * shaper.limit_bytes and not wish.jitter_ns and wish.aqm == "drop-tail"
    if full:
        # In the frames' own bytes, as the buffer counts them; the last frame found room for itself.
        depth = waited_ns * shaper.rate_bytes_per_s / 1e9 * frame_bytes(lane.mtu) / wire
        room = 2 * frame_bytes(lane.mtu)
        rows.append(
            ImpairmentCheck(
                "buffer", "kB", shaper.limit_bytes / 1e3, depth / 1e3, (depth - room) / 1e3, (depth + room) / 1e3
            )
        )
    return rows
