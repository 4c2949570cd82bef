"""Cells whose limiter is known by construction: each is built so that one thing must hold it back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.analysis import verdict
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.grid import of_window
from emulator.model.impairment import Buffer
from emulator.model.tcp_profile import Profile
from support.lab_cells import KIB, MIB, SMALL, Spoil, measure, netem, short_of_memory, spec


def sends(kib: int) -> Profile:
    """Hosts whose send buffer is small and whose receive buffer is not."""
    return Profile("sends", (4096, 4 * MIB, 4 * MIB), (4096, 16 * KIB, kib * KIB))


ASKS = replace(SMALL, name="asks", tcp_ecn=1)
"""Hosts that ask for ECN."""

CELLS: list[tuple[str, str, CellSpec, Spoil | None]] = [
    ("line-5", verdict.LINE, spec(5, 10), None),
    ("line-4-streams", verdict.LINE, spec(10, 20, streams=4), None),
    ("line-bbr", verdict.LINE, spec(10, 20, cc="bbr", duration_s=4), None),
    ("line-inbound", verdict.LINE, spec(5, 20, direction="inbound"), None),
    ("rwnd-64k", verdict.RECEIVE_WINDOW, spec(20, 100, of_window(64 * KIB)), None),
    ("rwnd-128k", verdict.RECEIVE_WINDOW, spec(20, 160, of_window(128 * KIB), duration_s=4), None),
    ("rwnd-256k", verdict.RECEIVE_WINDOW, spec(20, 200, of_window(256 * KIB), duration_s=4), None),
    ("rwnd-2-streams", verdict.RECEIVE_WINDOW, spec(20, 160, of_window(64 * KIB), streams=2), None),
    ("rwnd-inbound", verdict.RECEIVE_WINDOW, spec(20, 80, of_window(64 * KIB), direction="inbound"), None),
    ("sndbuf-64k", verdict.SEND_BUFFER, spec(20, 100, sends(64)), None),
    ("sndbuf-128k", verdict.SEND_BUFFER, spec(20, 160, sends(128)), None),
    ("sndbuf-256k", verdict.SEND_BUFFER, spec(20, 200, sends(256), duration_s=4), None),
    ("sndbuf-2-streams", verdict.SEND_BUFFER, spec(20, 160, sends(64), streams=2), None),
    ("loss-1%", verdict.CONGESTION_WINDOW, spec(20, 80, SMALL, loss=0.01), None),
    ("loss-0.5%", verdict.CONGESTION_WINDOW, spec(20, 120, SMALL, loss=0.005, duration_s=4), None),
    ("loss-reno", verdict.CONGESTION_WINDOW, spec(20, 80, SMALL, loss=0.01, cc="reno"), None),
    ("loss-inbound", verdict.CONGESTION_WINDOW, spec(20, 80, SMALL, loss=0.01, direction="inbound"), None),
    ("tiny-buffer-3", verdict.CONGESTION_WINDOW, spec(20, 120, SMALL, buffer=Buffer(packets=3), duration_s=4), None),
    ("ecn-marks", verdict.CONGESTION_WINDOW, spec(20, 80, ASKS, loss=0.01, ecn=True), None),
    (
        "ecn-marks-inbound",
        verdict.CONGESTION_WINDOW,
        spec(20, 80, ASKS, loss=0.01, ecn=True, direction="inbound"),
        None,
    ),
    ("slow-start-200", verdict.SLOW_START, spec(50, 200, duration_s=1), None),
    ("slow-start-300", verdict.SLOW_START, spec(20, 300, duration_s=1), None),
    ("slow-start-400", verdict.SLOW_START, spec(20, 400, duration_s=2), None),
    ("limit-4", verdict.EMULATOR, spec(10, 80, SMALL), netem("delay 40ms limit 4")),
    ("limit-8", verdict.EMULATOR, spec(10, 120, SMALL), netem("delay 60ms limit 8")),
    ("memory-16", verdict.EMULATOR, spec(20, 120, SMALL), short_of_memory(16)),
]


def cells(*kinds: str) -> Sequence[object]:
    """The cells of these kinds, as parameters of a test."""
    return [pytest.param(*cell, id=name) for name, *cell in CELLS if cell[0] in kinds]


def judge(kind: str, one: CellSpec, spoil: Spoil | None, folder: Path) -> None:
    """Measure one cell and see that the verdict is the one it was built for."""
    result = measure(one, folder, spoil)
    assert (result.judgement.limiter.endswith("(ECN marks)")) == one.lane.outbound.ecn
    assert (result.judgement.kind, result.judgement.evidence) == (kind, result.judgement.evidence), (
        result.judgement.limiter
    )
