"""Runs whose cells end when the test says so."""

from __future__ import annotations

import threading
from typing import Any

from emulator.errors import MeasureError
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from support.made_results import execution
from support.waiting import PATIENCE_S
from support.web_daemon import House

ASKED = {"rtt": ["1ms", "32ms"], "tcp_profile": ["default", "max"], "streams": [1], "rate": "100Mbit", "duration": 10}
CELLS = [f"lane-{rtt}ms-{profile}-1-100Mbit" for rtt in (1, 32) for profile in ("default", "max")]


class Gate:
    """A runner whose cells end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._may = threading.Semaphore(0)

    def __call__(self, spec: CellSpec) -> Execution:
        self.begun.append(spec.id)
        assert self._may.acquire(timeout=PATIENCE_S)
        if spec.id.startswith("lane-32ms-max"):
            raise MeasureError("iperf3 had enough")
        return execution(spec)

    def open(self, cells: int) -> None:
        """Let so many cells end."""
        self._may.release(cells)


def begin(house: House, **said: Any) -> str:
    """The name of a run that was begun."""
    answer = house.client.post("/api/runs", json=ASKED | said)
    assert answer.status_code == 201, answer.text
    return str(answer.json["id"])
