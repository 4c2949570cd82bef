"""A gate with every verdict, for tests of what is told about it."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.analysis import regression_gate
from emulator.analysis.regression_gate import HOSTS, LAB, Baseline, CellFigure, Conditions, MeasuredCell

GBIT, MS, S = 1e9, 1e6, 1e9
NOW = Conditions(LAB, "6.12.117", "0.2.0", "abc")


def one(key: str, value: float, percent: float | None = None) -> Mapping[str, CellFigure]:
    return {key: CellFigure.rounded(key, value, percent)}


def requests(per_s: float, p50_ms: float, p99_ms: float) -> Mapping[str, CellFigure]:
    return one("requests_per_s", per_s) | one("p50", p50_ms * MS) | one("p99", p99_ms * MS)


BEFORE = Baseline(
    Conditions(HOSTS, "6.12.117", "0.2.0", "abc"),
    {
        "slower": one("throughput", GBIT, 0.2),
        "slower-p99": requests(12.5, 80, 90),
        "same": one("completion", S, 0),
        "noisy": one("throughput", GBIT, 2),
        "faster": one("completion", S, 0.1),
        "spoilt": one("completion", S, 0.1),
        "failed": one("completion", S, 0.1),
        "absent": one("completion", S, 0.1),
    },
)
CELLS = [
    MeasuredCell("slower", one("throughput", 0.99 * GBIT, 0.1), seconds=30),
    MeasuredCell("slower-p99", requests(12.5, 80, 99), seconds=10),
    MeasuredCell("same", one("completion", 1.005 * S, 0), seconds=5.025),
    MeasuredCell("noisy", one("throughput", 0.98 * GBIT, 2), seconds=30),
    MeasuredCell("faster", one("completion", 0.9 * S, 0.1), seconds=4.5),
    MeasuredCell("spoilt", one("completion", S, 0.1), ("12 packets | <dropped> by the *limit*",), seconds=5),
    MeasuredCell("failed", {}, failure='the client ended with 3: \x1b[31m"boom" & <b>\ntwice'),
    MeasuredCell("new", one("completion", S), seconds=5),
]
EVERY_VERDICT = regression_gate.compare(BEFORE, CELLS, NOW)
