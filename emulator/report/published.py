"""The two published results that this project began with, beside ours and theory's, and why they differ. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulator.experiment.cell_result import CellResult, CellSpec
from emulator.report.tables import Table, mib

MB = 10**6
FOUNDING_10G = "founding-10g"
TRANSCONTINENTAL_1G = "transcontinental-1g"

FOUNDING = {
    0: (1162, 1157), 2: (1053, 1136), 4: (513, 1076), 8: (248, 1075), 16: (103, 691), 22: (91, 366), 32: (47, 358),
    44: (31, 208), 64: (8.2, 64), 128: (0.8, 26), 130: (0.7, 26),
}  # fmt: skip
"""RTT in ms: MB/s under the default and the maximal settings, iperf, 10 s, a 10 Gbit/s bridge with netem."""
WINDOW_LAW_UNTIL_MS = 22
"""Up to this RTT their default column is the window law: what was in flight stayed the same."""
LIMIT_FROM_MS = 16
"""From this RTT on netem's limit of 1000 packets held their other column down."""
AGREE = 0.15
"""What differs by less needs no reason."""

NOTHING = 0.005
WINDOW_SLACK = 0.1
"""A window within this share of the published one is meant to be it."""

TRANSCONTINENTAL = {(256 * 1024, 1): 29.4, (1024 * 1024, 1): 118.0, (1024 * 1024, 7): 826.0}
"""(effective window in bytes, streams): Mbit/s over 1 Gbit/s and 71 ms."""

FOUNDING_WORDS = (
    "In flight is throughput x RTT: what a window law keeps constant, whatever the RTT.",
    "Their default column up to 22 ms is the window law, as ours is; the windows differ with the kernels' buffers.",
    "Their other column falls from 16 ms on because netem held 1000 packets at most and dropped the rest: "
    "an artefact of their emulator, not physics. Ours sizes the limit from the bandwidth-delay product, and no packet "
    "was dropped by it.",
    "Theirs are means of 10 s with the slow start in them; ours stand beside as first 10 s, and as the steady rate.",
)
TRANSCONTINENTAL_WORDS = (
    "What counts is the effective window. iperf3 -w 256K here gives a socket buffer of twice that, of which the kernel "
    "offers three quarters or more: 42.5 Mbit/s, and 164.7 for -w 1M. The profiles of this run set the buffer so that "
    "the window is the published one.",
)


@dataclass(frozen=True)
class Published:
    """A table of theirs, ours and theory's, and the sentences that explain the difference."""

    table: Table
    words: tuple[str, ...]


def theirs(cell: CellResult) -> float | None:
    """What was published for a cell like this, in bytes/s; None when nothing was, or this is another experiment."""
    if cell.spec.topology.name == FOUNDING_10G:
        rtt_ms, rest_ns = divmod(cell.spec.lane.rtt_ns, 10**6)
        both = None if rest_ns else FOUNDING.get(rtt_ms)
        return both[_is_max(cell)] * MB if both else None
    if cell.spec.topology.name == TRANSCONTINENTAL_1G:
        fitting = (
            mbit * MB / 8 for (window_bytes, streams), mbit in TRANSCONTINENTAL.items()
            if streams == cell.spec.streams and abs(cell.peer_window_bytes - window_bytes) < WINDOW_SLACK * window_bytes
        )  # fmt: skip
        return next(fitting, None)
    return None


def side_by_side(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> Published | None:
    """The comparison, if these cells are of a published experiment (the topology's name says so)."""
    name = specs[0].topology.name if specs else ""
    cells = [found[spec.id] for spec in specs if spec.id in found]
    if name == FOUNDING_10G:
        return Published(_founding(cells), FOUNDING_WORDS)
    if name == TRANSCONTINENTAL_1G:
        return Published(_transcontinental(cells), TRANSCONTINENTAL_WORDS)
    return None


def _is_max(cell: CellResult) -> bool:
    return cell.spec.profile.name != "default"


def _founding(cells: Sequence[CellResult]) -> Table:
    rows = []
    for cell in sorted(cells, key=_is_max):
        rtt_s, published = cell.spec.lane.rtt_ns / 1e9, theirs(cell)
        flights = (_in_flight(published, rtt_s), _in_flight(cell.steady_bytes_per_s, rtt_s))
        ours = (cell.first_10s_bytes_per_s, cell.steady_bytes_per_s, cell.predicted_bytes_per_s)
        shown = "-" if published is None else mib(published)
        row = (cell.spec.profile.name, f"{rtt_s * 1000:g} ms", shown, *map(mib, ours), *flights)
        rows.append((*row, _why_founding(cell, published)))
    header = (
        "profile", "RTT", "theirs", "ours, first 10 s", "ours, steady", "theory", "in flight, theirs", "ours",
        "the difference",
    )  # fmt: skip
    return Table("The founding table: MiB/s, and MiB in flight", header, tuple(rows), ("profile", "the difference"))


def _in_flight(bytes_per_s: float | None, rtt_s: float) -> str:
    return mib(bytes_per_s * rtt_s) if bytes_per_s and rtt_s else "-"


def _why_founding(cell: CellResult, published: float | None) -> str:
    """By how much ours of the same 10 s differs from theirs, and why, where that is more than a little."""
    if published is None:
        return "not published"
    share = cell.first_10s_bytes_per_s / published - 1
    rtt_ms = cell.spec.lane.rtt_ns / 1e6
    if _is_max(cell):
        why = "their limit of 1000 packets" if rtt_ms >= LIMIT_FROM_MS else "unknown"
    elif rtt_ms <= WINDOW_LAW_UNTIL_MS:
        why = "another kernel's buffers, another window"
    else:
        why = "they kept less in flight than their own window: packets must have been lost"
    return _difference(share, why)


def _difference(share: float, why: str) -> str:
    if abs(share) < AGREE:
        return f"{share:+.0%}" if abs(share) > NOTHING else "none"
    return f"{share:+.0%}: {why}" if share < 1 else f"x {1 + share:.3g}: {why}"


def _transcontinental(cells: Sequence[CellResult]) -> Table:
    rows = []
    for cell in cells:
        published = theirs(cell)
        ours = (cell.first_10s_bytes_per_s, cell.steady_bytes_per_s, cell.predicted_bytes_per_s)
        shown = "-" if published is None else f"{published * 8 / MB:g}"
        mbits = [f"{value * 8 / MB:.1f}" for value in ours]
        window = f"{cell.peer_window_bytes / 1024:.0f} KiB"
        rows.append((window, str(cell.spec.streams), shown, *mbits, _why_transcontinental(cell, published)))
    header = ("effective window", "streams", "theirs", "ours, first 10 s", "ours, steady", "theory", "the difference")
    return Table("1 Gbit/s, 71 ms: Mbit/s", header, tuple(rows), ("the difference",))


def _why_transcontinental(cell: CellResult, published: float | None) -> str:
    if published is None:
        return "not published"
    return _difference(cell.steady_bytes_per_s / published - 1, f"ours is limited by {cell.limiter}")
