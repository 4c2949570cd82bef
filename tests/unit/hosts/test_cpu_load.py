"""How busy the cores were, by two looks at /proc/stat."""

from __future__ import annotations

import pytest

from emulator.errors import MeasureError
from emulator.hosts.tools import cpu_load

BEFORE = """\
cpu  100 0 100 200 0 0 0 0 0 0
cpu0 50 0 50 100 0 0 0 0 40 0
cpu1 50 0 50 100 0 0 0 0 0 0
intr 5
"""
AFTER = """\
cpu  190 0 120 290 0 0 0 0 0 0
cpu0 130 0 55 109 1 0 5 0 110 0
cpu1 60 0 65 155 20 0 0 0 0 0
intr 9
"""


def test_the_busiest_core_counts() -> None:
    # Of its 100 ticks cpu0 waited for 10, one of them for a disk; guest time is in user time already.
    assert cpu_load.busiest_percent(cpu_load.parse(BEFORE), cpu_load.parse(AFTER)) == pytest.approx(90)


def test_no_tick_is_no_work() -> None:
    assert cpu_load.busiest_percent(cpu_load.parse(BEFORE), cpu_load.parse(BEFORE)) == 0.0


def test_nonsense_is_an_error() -> None:
    with pytest.raises(MeasureError, match=r"^/proc/stat cannot be read: 'cpu0 a b'$"):
        cpu_load.parse("cpu0 a b")
