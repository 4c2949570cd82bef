"""The page of limits names every limit that the product has."""

from __future__ import annotations

from support.folders import ROOT

from emulator.experiment.grid import MOST_CELLS
from emulator.model.bottleneck import LONGEST_CAKE_NS, LONGEST_CODEL_NS, least_rate_bps
from emulator.model.impairment import MAX_JITTER_NS, MOST_RATE_BPS, Impairment
from emulator.model.schedule import LONGEST_NS, MOST_KEYS
from emulator.model.topology import MOST_LANES, MOST_MTU, MOST_VIRTUAL_LANES
from emulator.plan.aqm import MOST_MEMORY_BYTES
from emulator.system import bounded_file
from emulator.system.bounded_file import FileKind
from emulator.units import format_duration, format_rate, format_size
from web.api.run_form import MOST_CELLS as MOST_CELLS_OF_A_RUN

PAGE = (ROOT / "emulator/docs/limitations.md").read_text()


def spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ") if number >= 10_000 else str(number)


def test_every_kind_of_file() -> None:
    kinds = [
        kind for kind in vars(bounded_file).values() if isinstance(kind, FileKind) and kind.name != "a daemon's answer"
    ]
    rows = [f"| {kind.name.removeprefix('a ')} | {format_size(kind.most_bytes)} |" for kind in kinds]
    assert [row for row in rows if row not in PAGE] == []


def test_every_range() -> None:
    rate = Impairment(rate_bps=1000)
    told = [
        f"{MOST_LANES}, of them {MOST_VIRTUAL_LANES} virtual",
        format_duration(MAX_JITTER_NS),
        f"{format_rate(MOST_RATE_BPS)} at most",
        f"{format_rate(least_rate_bps(rate, 1500))} at an MTU of 1500",
        f"{least_rate_bps(rate, MOST_MTU) / 1000:.1f} kbit/s at {spaced(MOST_MTU)}",
        f"an RTT of {LONGEST_CODEL_NS // 10**9} s",
        f"an RTT of {LONGEST_CAKE_NS // 10**9} s; memory of {format_size(MOST_MEMORY_BYTES)}",
        f"{spaced(MOST_KEYS)} keys",
        f"{LONGEST_NS // (86_400 * 10**9)} days",
        f"{spaced(MOST_CELLS)} cells; a run from the web {MOST_CELLS_OF_A_RUN}",
    ]
    assert [one for one in told if one not in PAGE] == []
