"""Compares our results with the two published results that started this project and with theory, and explains the
differences. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from emulator import units
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.report.tables import THROUGHPUT, Table

MB = 10**6
FOUNDING_10G = "founding-10g"
TRANSCONTINENTAL_1G = "transcontinental-1g"

FOUNDING = {
    0: (1162, 1157), 2: (1053, 1136), 4: (513, 1076), 8: (248, 1075), 16: (103, 691), 22: (91, 366), 32: (47, 358),
    44: (31, 208), 64: (8.2, 64), 128: (0.8, 26), 130: (0.7, 26),
}  # fmt: skip
"""RTT in ms: MB/s under the default and the maximal settings; iperf, 10 s, a 10 Gbit/s bridge with netem."""
WINDOW_LAW_UNTIL_MS = 22
"""Up to this RTT their default column follows the window law: bytes in flight stay constant."""
LIMIT_FROM_MS = 16
"""From this RTT on netem's limit of 1000 packets bounds their maximal column."""
AGREE = 0.15
"""A smaller difference needs no explanation."""

NOTHING = 0.005
WINDOW_SLACK = 0.1
"""A window within this share of the published one counts as the same."""

TRANSCONTINENTAL = {(256 * 1024, 1): 29.4, (1024 * 1024, 1): 118.0, (1024 * 1024, 7): 826.0}
"""(effective window in bytes, streams): Mbit/s over 1 Gbit/s and 71 ms."""

FOUNDING_WORDS = (
    "Bytes in flight are throughput x RTT. A window law keeps them constant at every RTT.",
    "Their default column follows the window law up to 22 ms, and so does ours. The windows differ because the "
    "kernels' default buffers differ.",
    "Their maximal column falls from 16 ms on because their netem queued at most 1000 packets and dropped the rest: an "
    "artefact of their emulator, not physics. Our limit is sized from the bandwidth-delay product and dropped no "
    "packet.",
    "Theirs are means over 10 s that include the slow start. We show our first 10 s and our steady rate beside them.",
)
TRANSCONTINENTAL_WORDS = (
    "The effective window decides. iperf3 -w 256K sets a socket buffer of twice that size here, and the kernel offers "
    "three quarters of it or more: 5.1 MiB/s (0.0425 Gbit/s), and 19.6 MiB/s (0.165 Gbit/s) for -w 1M. This run's "
    "profiles limit the window to the published one.",
)


class Published(Struct, frozen=True):
    """A table of published, measured and theoretical figures, and sentences that explain the differences."""

    table: Table
    words: tuple[str, ...]


def theirs(cell: CellResult) -> float | None:
    """The published throughput of such a cell in bytes/s; None when none was published or the experiment differs."""
    if cell.spec.topology.name == FOUNDING_10G:
        rtt_ms, rest_ns = divmod(cell.spec.lane.rtt_ns, 10**6)
        both = None if rest_ns else FOUNDING.get(rtt_ms)
        return both[_is_max(cell)] * MB if both else None
    if cell.spec.topology.name == TRANSCONTINENTAL_1G:
        if cell.sockets is None:
            return None
        offered_bytes = cell.sockets.peer_window_bytes
        fitting = (
            mbit * MB / 8 for (window_bytes, streams), mbit in TRANSCONTINENTAL.items()
            if streams == cell.spec.streams and abs(offered_bytes - window_bytes) < WINDOW_SLACK * window_bytes
        )  # fmt: skip
        return next(fitting, None)
    return None


def side_by_side(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> Published | None:
    """The comparison, if the topology's name shows that these cells belong to a published experiment."""
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
        ours = (
            cell.throughput.first_10s_bytes_per_s,
            cell.steady_bytes_per_s,
            cell.judgement.predicted_bytes_per_s,
        )
        shown = "-" if published is None else units.both_rates(published)
        row = (cell.spec.profile.name, f"{rtt_s * 1000:g} ms", shown, *map(units.both_rates, ours), *flights)
        rows.append((*row, _why_founding(cell, published)))
    header = (
        "profile", "RTT", "theirs", "ours, first 10 s", "ours, steady", "theory", "in flight, theirs", "ours",
        "difference",
    )  # fmt: skip
    return Table(f"The founding table: {THROUGHPUT}, and MiB in flight", header, tuple(rows), ("profile", "difference"))


def _in_flight(bytes_per_s: float | None, rtt_s: float) -> str:
    return units.mib_per_s(bytes_per_s * rtt_s) if bytes_per_s and rtt_s else "-"


def _why_founding(cell: CellResult, published: float | None) -> str:
    """How far our first 10 s differ from the published 10 s, and why, where the difference is relevant."""
    if published is None:
        return "not published"
    share = cell.throughput.first_10s_bytes_per_s / published - 1
    rtt_ms = cell.spec.lane.rtt_ns / 1e6
    if _is_max(cell):
        why = "their limit of 1000 packets" if rtt_ms >= LIMIT_FROM_MS else "unknown"
    elif rtt_ms <= WINDOW_LAW_UNTIL_MS:
        why = "another kernel's default buffers, hence another window"
    else:
        why = "fewer bytes in flight than their window: they must have lost packets"
    return _difference(share, why)


def _ours(cell: CellResult) -> tuple[float, float, float]:
    """The first 10 s, the steady part and the prediction, in bytes/s."""
    first_10s = cell.throughput.first_10s_bytes_per_s
    return first_10s, cell.steady_bytes_per_s, cell.judgement.predicted_bytes_per_s


def _difference(share: float, why: str) -> str:
    if abs(share) < AGREE:
        return f"{share:+.0%}" if abs(share) > NOTHING else "none"
    return f"{share:+.0%}: {why}" if share < 1 else f"x {1 + share:.3g}: {why}"


def _transcontinental(cells: Sequence[CellResult]) -> Table:
    rows = []
    for cell in cells:
        published = theirs(cell)
        ours = (
            cell.throughput.first_10s_bytes_per_s,
            cell.steady_bytes_per_s,
            cell.judgement.predicted_bytes_per_s,
        )
        shown = "-" if published is None else units.both_rates(published)
        window = f"{cell.sockets.peer_window_bytes / 1024:.0f} KiB" if cell.sockets else "-"
        row = (window, str(cell.spec.streams), shown, *map(units.both_rates, ours))
        rows.append((*row, _why_transcontinental(cell, published)))
    header = ("effective window", "streams", "theirs", "ours, first 10 s", "ours, steady", "theory", "difference")
    return Table(f"1 Gbit/s, 71 ms: {THROUGHPUT}", header, tuple(rows), ("difference",))


def _why_transcontinental(cell: CellResult, published: float | None) -> str:
    if published is None:
        return "not published"
    return _difference(cell.steady_bytes_per_s / published - 1, f"ours is limited by {cell.judgement.limiter}")
