"""The CPU as the limit of a cell, by construction: 100 Gbit/s at an RTT of 0 between programs that share one core."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest
from support.own_namespaces import found_by

from emulator.analysis import verdict

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and packet sockets need root")


@cache
def session() -> dict[str, Any]:
    """What the session found; it runs once."""
    return found_by("one_cpu_session")


def test_the_cpu_limits_where_all_share_one_and_nothing_else_can() -> None:
    found = session()
    assert found["line_share"] < verdict.LINE_SHARE
    assert (found["kind"], found["evidence"]) == (verdict.CPU, found["evidence"])
    # Neither end of iperf3 is busy all the time: the kernel and the engine work on that core, too.
    assert found["iperf3_percent"] < verdict.CPU_PERCENT <= found["core_percent"]


def test_the_detector_sees_the_same() -> None:
    reason = session()["evidence"].partition(", ")[0]  # what follows depends on whether the window was full
    assert f"cpu: {reason}: the CPU may be the limit" in session()["findings"]
