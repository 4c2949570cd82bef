"""The verdict where a buffer at one of the hosts is what holds the stream back, and the advice that lifts it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.lab_cells import KIB, Spoil, short_of_memory, spec
from support.limited_cells import cells, judge, sends
from support.planted_cells import BUFFER, KERNELS_OWN, MEMORY, Planted
from support.verdict_trial import tried

from emulator.analysis import verdict
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.grid import of_window
from emulator.model.impairment import Buffer

pytestmark = pytest.mark.usefixtures("pinged", "tcp_memory_as_before")


@pytest.mark.parametrize(("kind", "one", "spoil"), cells(verdict.RECEIVE_WINDOW, verdict.SEND_BUFFER))
def test_the_limiter_is_a_window(kind: str, one: CellSpec, spoil: Spoil | None, tmp_path: Path) -> None:
    judge(kind, one, spoil, tmp_path)


ADVISED = [
    Planted(0, verdict.SEND_BUFFER, spec(10, 100, sends(64), duration_s=5)),
    Planted(1, verdict.RECEIVE_WINDOW, spec(20, 100, of_window(64 * KIB), cc="bbr", duration_s=5)),
    Planted(2, BUFFER, spec(50, 60, buffer=Buffer(packets=3), duration_s=5)),
    Planted(3, MEMORY, spec(20, 120, duration_s=5), short_of_memory(16)),
    Planted(4, verdict.SEND_BUFFER, spec(1000, 150, KERNELS_OWN, duration_s=8)),
    Planted(5, verdict.SEND_BUFFER, spec(500, 250, KERNELS_OWN, cc="reno", duration_s=12)),
]


@pytest.mark.parametrize("planted", ADVISED, ids=lambda planted: f"{planted.limiter}-{planted.number}")
def test_advice_that_is_followed_lifts_the_cell_as_predicted(planted: Planted, tmp_path: Path) -> None:
    trial = tried(planted, tmp_path)
    assert trial.right, trial
    assert trial.followed, trial
    assert trial.followed.held, trial
    assert trial.followed.limiter != planted.limiter or trial.followed.ratio >= 1
