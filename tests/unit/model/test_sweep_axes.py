"""The axes of a sweep as values: valid once they are built."""

from __future__ import annotations

import re
from typing import Any

import pytest

from emulator.experiment.grid import of_window
from emulator.model import sweep_axes
from emulator.model.loss_model import P32
from emulator.model.sweep_axes import Axes
from emulator.model.tcp_profile import LARGEST_BUFFER_BYTES


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"streams": (1, 129)}, "129 is not within 1..128, what one measurement has"),
        ({"duration": 86_401}, "86401 s is not within 1 s..86400 s, no more than a day"),
        (
            {"rtt": (3_000_000_001,)},
            "3.000000001 s is not within 0 ms..3 s, as long as the kernel waits for an answer to ARP",
        ),
        ({"direction": ("up",)}, "no such direction as 'up'; there are outbound, inbound, both"),
        ({"cc": ("Cubic",)}, "'Cubic' is no name of a congestion control such as cubic or bbr"),
        ({"rate": (7,)}, "7 bit/s are below one byte a second"),
        ({"loss": (P32,)}, "a loss of 100% lets nothing through that could be measured"),
    ],
)
def test_impossible_ones(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        Axes(**given)


def test_every_window_that_is_allowed_makes_buffers_that_the_kernel_can_reckon_with() -> None:
    for window_bytes in (sweep_axes.SMALLEST_WINDOW_BYTES, 2**20, sweep_axes.LARGEST_WINDOW_BYTES):
        profile = of_window(window_bytes)
        assert profile.tcp_rmem
        assert profile.tcp_wmem
        assert window_bytes < profile.tcp_rmem[2] <= LARGEST_BUFFER_BYTES
        assert window_bytes <= profile.tcp_wmem[2] * 2 // 3 <= LARGEST_BUFFER_BYTES


def test_bare_numbers_of_a_duration_are_seconds() -> None:
    assert [sweep_axes.parse("duration", text) for text in ("90", "30s", "1min")] == [90, 30, 60]
