"""Shapes of jitter: what tc's tables are, what the kernel makes of an entry, and what is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.model import jitter_distribution
from emulator.model.jitter_distribution import NAMES, SCALE, named


def test_moments_are_those_of_the_shapes() -> None:
    for name, mean, deviation in (
        ("uniform", 0, 1 / math.sqrt(3)), ("normal", 0, 1), ("pareto", -0.033, 0.82), ("paretonormal", -0.025, 0.834),
    ):  # fmt: skip
        values = [value / SCALE for value in named(name)]
        assert sum(values) / len(values) == pytest.approx(mean, abs=0.002)
        spread = math.sqrt(sum(v * v for v in values) / len(values) - mean**2)
        assert spread == pytest.approx(deviation, abs=0.005), name


def test_the_tails_are_those_of_iproute2() -> None:
    assert (min(named("pareto")), max(named("pareto"))) == (-5461, 32767)
    assert max(abs(value) for value in named("uniform")) < SCALE
    assert 29_000 < max(named("normal")) < 32_768


def test_fingerprints_tell_tables_apart_and_lead_back_to_them() -> None:
    assert len({jitter_distribution.fingerprint(named(name)) for name in NAMES}) == len(NAMES)
    for name in NAMES:
        digest = jitter_distribution.fingerprint(named(name))
        assert 0 < digest < 2**31
        assert jitter_distribution.from_fingerprint(digest) == named(name)
        assert jitter_distribution.name_of(named(name)) == name
    assert jitter_distribution.from_fingerprint(12345) is None
    assert jitter_distribution.name_of((1, 2)) == "table"


def test_a_file_of_numbers() -> None:
    assert jitter_distribution.parse("# head\n 1 -2\n3 # tail 4\n") == (1, -2, 3)
    assert jitter_distribution.pack((1, -2)) == b"\x01\x00\xfe\xff"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 two", "'two' in the table is not a whole number (of 1/8192 jitter)"),
        ("# nothing", "a distribution has 1 to 16384 numbers, not 0"),
        ("0 40000", "40000 in the distribution is not within -32768..32767 (four jitters each way)"),
        ("0 " * 16385, "a distribution has 1 to 16384 numbers, not 16385"),
    ],
)
def test_tables_the_kernel_would_refuse(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        jitter_distribution.parse(text)
    assert str(refusal.value) == message


@given(st.integers(0, 2**31 - 1), st.integers(-32768, 32767))
def test_an_entry_is_that_many_jitters_to_the_nanosecond(jitter_ns: int, value: int) -> None:
    exact = jitter_ns * value / SCALE
    assert abs(jitter_distribution.deviation_ns(jitter_ns, value) - exact) <= 0.5 + 1e-6
    assert jitter_distribution.deviation_ns(jitter_ns, -value) == -jitter_distribution.deviation_ns(jitter_ns, value)


def test_the_longest_delay() -> None:
    assert jitter_distribution.reach_ns(8192, named("pareto")) == 32767
    assert jitter_distribution.reach_ns(8192, (-5, -1)) == 0
