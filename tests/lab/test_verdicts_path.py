"""The verdict where the path holds the stream back: its rate, loss, slow start, or an emulator that is too small."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.lab_cells import Spoil
from support.limited_cells import CELLS, cells, judge

from emulator.analysis import verdict
from emulator.experiment.cell_spec import CellSpec

pytestmark = pytest.mark.usefixtures("pinged", "tcp_memory_as_before")


@pytest.mark.parametrize(
    ("kind", "one", "spoil"), cells(verdict.LINE, verdict.CONGESTION_WINDOW, verdict.SLOW_START, verdict.EMULATOR)
)
def test_the_limiter_is_on_the_path(kind: str, one: CellSpec, spoil: Spoil | None, tmp_path: Path) -> None:
    judge(kind, one, spoil, tmp_path)


def test_there_are_enough_of_every_kind() -> None:
    kinds = [kind for _, kind, _, _ in CELLS]
    assert len(CELLS) >= 24
    # The CPU is infinitely fast in virtual time (see tests/live/test_cpu_limit.py); unknown is what is left.
    assert set(kinds) == set(verdict.KINDS) - {verdict.CPU, verdict.UNKNOWN}
    assert min(kinds.count(kind) for kind in set(kinds)) >= 3
