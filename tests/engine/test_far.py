"""The wire engine over 346 ms each way, in real time on this machine's own kernel, at a rate that any machine carries.

On a busy machine frames are dropped and late. Here nothing is lost that no counter shows, and the lateness is told; how
much a machine carries is a figure, which `tests/bench/wire.py` measures.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest
from support.own_namespaces import found_by

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and packet sockets need root")


@cache
def session() -> dict[str, Any]:
    """What the session found; it runs once."""
    return found_by("engine_far_session")


@pytest.mark.parametrize("part", ["far", "under_load"])
def test_no_frame_is_lost_that_no_counter_shows_and_none_comes_twice(part: str) -> None:
    found = session()[part]
    assert found["sent"] > 1000, found
    assert 0 <= found["lost"] <= found["ours"] + found["backlog"], found
    # Behind the engine only the kernel can drop.
    assert found["unseen"] <= found["backlog"], found


@pytest.mark.parametrize("part", ["far", "under_load"])
def test_the_engine_tells_how_late_each_frame_was(part: str) -> None:
    found = session()[part]
    assert found["timed"] == found["sent"] - found["lost"] > 0, found
    assert found["late_p99_ns"] > 0, found


def test_changes_under_load_move_the_lane_between_calls_and_a_ring() -> None:
    assert session()["under_load"]["rings"] == [True, False, True, False, True]
