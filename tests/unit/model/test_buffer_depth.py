"""The depth of a buffer as an axis has it."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.model.buffer_depth import BufferDepth
from emulator.model.impairment import Buffer


@given(st.integers(1, 10**5), st.integers(10**4, 10**11), st.integers(0, 10**9))
def test_a_share_of_the_bdp_is_rounded_up_and_holds_a_frame(thousandths: int, rate_bps: int, rtt_ns: int) -> None:
    depth = BufferDepth.parse(f"{thousandths / 1000:.3f}bdp")
    exact = Fraction(thousandths, 1000) * rate_bps * rtt_ns / (8 * 10**9)
    assert depth.before(rate_bps, rtt_ns, 1514) == Buffer(bytes=max(1514, math.ceil(exact)))
    assert BufferDepth.parse(str(depth)) == depth


def test_what_a_text_means() -> None:
    assert BufferDepth.parse("0.25bdp") == BufferDepth.parse(" .25 BDP ") == BufferDepth(Fraction(1, 4))
    assert BufferDepth.parse("8MiB").before(1, 1, 1) == Buffer(bytes=8 * 2**20)
    assert BufferDepth.parse("100p") == BufferDepth(fixed=Buffer(packets=100))
    assert [str(BufferDepth.parse(text)) for text in ("0.25bdp", "8MiB", "5ms")] == ["0.25 bdp", "8 MiB", "5 ms"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0bdp", "'0bdp' is not within 0..1000 bdp"),
        ("1001bdp", "is not within 0..1000 bdp"),
        (
            "1x",
            "'1x' has an unknown unit 'x': use bytes (8MiB), packets (100p) or time (5ms); or use a share of the BDP",
        ),
        ("0p", "a buffer of 0 holds no packet"),
        ("-1bdp", "use a share of the BDP (0.25bdp)"),
    ],
)
def test_what_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        BufferDepth.parse(text)
