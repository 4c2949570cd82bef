"""kill -9 before every system call of up, set and down, with lanes through the wire engine on this machine's kernel."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.deaths import USE_CASES
from support.own_namespaces import found_by


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_death_before_any_call_leaves_nothing_that_the_next_command_does_not_clear() -> None:
    # All at once, each in namespaces of its own: they mostly wait for the kernel.
    with ThreadPoolExecutor(len(USE_CASES)) as at_once:
        deaths = dict(zip(USE_CASES, at_once.map(lambda name: found_by("deaths", name), USE_CASES), strict=True))
    # Where half a name of a namespace could stay.
    assert deaths["up"]["mount"] >= 2
    assert deaths["down"]["umount2"] == 2
    assert deaths["down"]["unlink"] >= 2
    assert all(sum(calls.values()) >= 4 for calls in deaths.values())
