"""Where the repository keeps what tests read."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
GOLDEN, CAPTURES = TESTS / "golden", TESTS / "captures"
TOPOLOGIES = ROOT / "topologies"
