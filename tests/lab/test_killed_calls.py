"""kill -9 before every fourth system call of up, set and down, with lanes through netem.

Every single call, with lanes through the wire engine: tests/engine/test_killed_calls.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support import deaths, oracle


@pytest.mark.parametrize("use_case", [deaths.of_up, deaths.of_set, deaths.of_down])
def test_a_death_before_any_call_leaves_nothing(use_case: Callable[[Path, int], Counter[str]], tmp_path: Path) -> None:
    before = oracle.snapshot()
    assert use_case(tmp_path, 4).total() >= 3
    assert oracle.difference(before, oracle.snapshot()) == []
