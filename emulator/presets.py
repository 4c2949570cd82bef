"""The two published results that this project began with, beside ours and theory's, and why they differ. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulator.cells import CellResult, CellSpec
from emulator.report import Table, mib

MB = 10**6
FOUNDING_10G = "founding-10g"
TRANSCONTINENTAL_1G = "transcontinental-1g"

FOUNDING = {
    0: (1162, 1157), 2: (1053, 1136), 4: (513, 1076), 8: (248, 1075), 16: (103, 691), 22: (91, 366), 32: (47, 358),
    44: (31, 208), 64: (8.2, 64), 128: (0.8, 26), 130: (0.7, 26),
}  # fmt: skip
"""RTT in ms: MB/s under the default and the maximal settings, iperf, 10 s, a 10 Gbit/s bridge with netem."""

TRANSCONTINENTAL = {(256 * 1024, 1): 29.4, (1024 * 1024, 1): 118.0, (1024 * 1024, 7): 826.0}
"""(effective window in bytes, streams): Mbit/s over 1 Gbit/s and 71 ms."""

FOUNDING_WORDS = (
    "Their default column up to 22 ms is the window law with buffers of 4 to 6 MiB, as ours is.",
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


def side_by_side(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> Published | None:
    """The comparison, if these cells are of a published experiment (the topology's name says so)."""
    name = specs[0].topology.name if specs else ""
    cells = [found[spec.id] for spec in specs if spec.id in found]
    if name == FOUNDING_10G:
        return Published(_founding(cells), FOUNDING_WORDS)
    if name == TRANSCONTINENTAL_1G:
        return Published(_transcontinental(cells), TRANSCONTINENTAL_WORDS)
    return None


def _founding(cells: Sequence[CellResult]) -> Table:
    rows = []
    for cell in cells:
        rtt_ms = cell.spec.lane.rtt_ns / 1e6
        theirs = FOUNDING.get(round(rtt_ms))
        column = 0 if cell.spec.profile.name == "default" else 1
        published = f"{theirs[column] * MB / 2**20:.1f}" if theirs and rtt_ms == round(rtt_ms) else "-"
        ours = (mib(cell.first_10s_bytes_per_s), mib(cell.steady_bytes_per_s), mib(cell.predicted_bytes_per_s))
        rows.append((f"{rtt_ms:g} ms", cell.spec.profile.name, published, *ours, cell.limiter))
    header = ("RTT", "profile", "theirs", "ours, first 10 s", "ours, steady", "theory", "limited by")
    return Table("The founding table, MiB/s", header, tuple(rows))


def _transcontinental(cells: Sequence[CellResult]) -> Table:
    rows = []
    for cell in cells:
        window = cell.peer_window_bytes
        theirs = next(
            (mbit for (size, streams), mbit in TRANSCONTINENTAL.items()
             if streams == cell.spec.streams and abs(window - size) < 0.1 * size), None,
        )  # fmt: skip
        mbits = [
            f"{value * 8 / 1e6:.1f}"
            for value in (cell.first_10s_bytes_per_s, cell.steady_bytes_per_s, cell.predicted_bytes_per_s)
        ]
        shown = "-" if theirs is None else f"{theirs:g}"
        rows.append((f"{window / 1024:.0f} KiB", str(cell.spec.streams), shown, *mbits, cell.limiter))
    header = ("effective window", "streams", "theirs", "ours, first 10 s", "ours, steady", "theory", "limited by")
    return Table("1 Gbit/s, 71 ms: Mbit/s", header, tuple(rows))
