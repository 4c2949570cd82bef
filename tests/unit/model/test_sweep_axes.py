"""The axes of a sweep as values: valid once they are built."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from emulator.config import sweep_schema
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
        ({"direction": ("up",)}, "there is no direction 'up': use outbound, inbound or both"),
        ({"cc": ("Cubic",)}, "'Cubic' is not the name of a congestion control: use cubic or bbr"),
        ({"rate": (7,)}, "7 bit/s is below the minimum of one byte a second"),
        ({"loss": (P32,)}, "a loss of 100% lets no packet through: nothing could be measured"),
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


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("rtt", "1,5ms", "'1,5ms' is ambiguous, for '1' has no unit: write 1ms,5ms or 1.5ms"),
        ("rtt", "0,5ms", "'0,5ms' is ambiguous, for '0' has no unit: write 0ms,5ms or 0.5ms"),
        ("rtt", "32ms, 1,5 ms", "'32ms, 1,5 ms' is ambiguous, for '1' has no unit: write 32ms,1ms,5 ms or 32ms,1.5 ms"),
        ("rtt", "1,5,32ms", "'1,5,32ms' is ambiguous, for '1' has no unit: write 1ms,5ms,32ms or 1ms,5.32ms"),
        ("rtt", "32ms,5", "'32ms,5' is ambiguous, for '5' has no unit: write 32ms,5ms"),
        ("rate", "2,5Gbit", "'2,5Gbit' is ambiguous, for '2' has no unit: write 2Gbit,5Gbit or 2.5Gbit"),
        ("window", "1,5MiB", "'1,5MiB' is ambiguous, for '1' has no unit: write 1MiB,5MiB or 1.5MiB"),
        ("loss", "0,1%", "'0,1%' is ambiguous, for '0' has no unit: write 0%,1% or 0.1%"),
    ],
)
def test_a_comma_that_may_be_a_decimal_one_is_asked_about(key: str, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        sweep_axes.split(key, text)
    form = sweep_schema.SweepRequest
    with pytest.raises(ValidationError, match=re.escape(said)):
        form.model_validate({key: text})
    for reading in said.rpartition("write ")[2].split(" or "):
        assert getattr(form.model_validate({key: reading}), key)


@pytest.mark.parametrize(
    ("key", "text", "parts"),
    [
        ("rtt", "0,32,346", ["0", "32", "346"]),
        ("rtt", "1,5", ["1", "5"]),
        ("rtt", "0.5ms, 32ms", ["0.5ms", "32ms"]),
        ("loss", "0,0.01%,0.1%", ["0", "0.01%", "0.1%"]),
        ("loss", "0.01,0.5", ["0.01", "0.5"]),
        ("streams", "1,8", ["1", "8"]),
        ("lane", "1,5ms", ["1", "5ms"]),
    ],
)
def test_lists_that_can_be_read_in_one_way(key: str, text: str, parts: list[str]) -> None:
    assert sweep_axes.split(key, text) == parts
