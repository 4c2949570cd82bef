"""The verdict where a buffer at one of the hosts is what holds the stream back, and the advice that lifts it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.lab_cells import MIB, Spoil, measure, spec
from support.limited_cells import cells, judge, sends

from emulator.analysis import verdict
from emulator.experiment.cell_result import CellSpec

pytestmark = pytest.mark.usefixtures("pinged", "tcp_memory_as_before")


@pytest.mark.parametrize(("kind", "one", "spoil"), cells(verdict.RECEIVE_WINDOW, verdict.SEND_BUFFER))
def test_the_limiter_is_a_window(kind: str, one: CellSpec, spoil: Spoil | None, tmp_path: Path) -> None:
    judge(kind, one, spoil, tmp_path)


def test_advice_that_is_taken_lifts_the_cell_as_promised(tmp_path: Path) -> None:
    before = measure(spec(10, 100, sends(64)), tmp_path)
    setting, _, rest = before.judgement.advice.partition(" from ")
    assert (setting, before.judgement.kind) == ("tcp_wmem max", verdict.SEND_BUFFER)
    wanted_mib = float(rest.split(" to ")[1].split(" MiB")[0])
    promised_mib = float(rest.split(": ")[1].split(" MiB/s")[0])
    after = measure(spec(10, 100, sends(round(wanted_mib * 1024)), duration_s=5), tmp_path)
    assert after.judgement.kind != verdict.SEND_BUFFER
    assert after.steady_bytes_per_s / MIB == pytest.approx(promised_mib, rel=0.05)
