"""kill -9 before every system call of the script that restores a host's settings, and of the guard that it starts."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest
from support.own_namespaces import found_by

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sysctls of a namespace need root")


@cache
def session() -> dict[str, Any]:
    """What the session found; it runs once."""
    return found_by("guard_deaths")


def test_whatever_dies_the_next_measurement_starts_from_the_settings_of_before() -> None:
    deaths = session()
    assert (sum(deaths["keep"].values()) > 20, sum(deaths["guard"].values()) > 10) == (True, True)


def test_a_measurement_may_follow_the_answer_of_the_one_before() -> None:
    """Though the guard that wrote the answer is slow to end."""
    assert session()["slow"] == [[["ready", "restored"], 0]] * 2


def test_without_room_to_save_the_settings_no_measurement_begins() -> None:
    assert session()["full"] == [[], 1, True]
