"""kill -9 before every system call of up, set and down, with lanes through the wire engine on this machine's kernel."""

from __future__ import annotations

import os

import pytest
from support.own_namespaces import found_by


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_death_before_any_call_leaves_nothing_that_the_next_command_does_not_clear() -> None:
    deaths = found_by("deaths")
    # Where half a name of a namespace could stay.
    assert deaths["up"]["mount"] >= 2
    assert deaths["down"]["umount2"] == 2
    assert deaths["down"]["unlink"] >= 2
    assert all(sum(calls.values()) >= 4 for calls in deaths.values())
