"""Units: exact both ways, and a refusal says what to write instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator import units


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("32ms", 32_000_000),
        ("32 ms", 32_000_000),
        (" 1.5s ", 1_500_000_000),
        ("0.346s", 346_000_000),
        ("250us", 250_000),
        ("250µs", 250_000),
        ("7ns", 7),
        ("2min", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        (".5ms", 500_000),
        ("0", 0),
        ("0.1s", 100_000_000),
    ],
)
def test_durations(text: str, ns: int) -> None:
    assert units.parse_duration_ns(text) == ns


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("10Gbit", 10**10),
        ("10 Gbit/s", 10**10),
        ("2.5gbit", 2_500_000_000),
        ("100MBIT/S", 10**8),
        ("8bit", 8),
        ("1Tbit", 10**12),
    ],
)
def test_rates(text: str, bps: int) -> None:
    assert units.parse_rate_bps(text) == bps


@pytest.mark.parametrize(
    ("text", "p32"),
    [
        ("0", 0),
        ("0%", 0),
        ("1%", 42_949_673),
        ("0.01%", 429_497),
        ("0.0001", 429_497),
        ("100%", 2**32 - 1),
        ("50%", 2**31),
    ],
)
def test_probabilities(text: str, p32: int) -> None:
    assert units.parse_probability_p32(text) == p32


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8MiB", 8_388_608),
        ("8 MB", 8_000_000),
        ("64KiB", 65_536),
        ("1.5KiB", 1536),
        ("4096", 4096),
        ("0B", 0),
        ("1kB", 1000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert units.parse_size_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("8MiB", {"bytes": 8_388_608}),
        ("100p", {"packets": 100}),
        ("3 packets", {"packets": 3}),
        ("5ms", {"ns": 5_000_000}),
    ],
)
def test_buffers(text: str, parts: units.BufferParts) -> None:
    assert units.parse_buffer(text) == parts


REFUSALS = [
    (units.parse_duration_ns, "32", "'32' has no unit: write 32ms for milliseconds"),
    (units.parse_duration_ns, "3,5ms", "'3,5ms' has a comma: write 3.5ms"),
    (units.parse_duration_ns, "3,5", "'3,5' has a comma: write 3.5"),
    (units.parse_rate_bps, "1,000Mbit", "'1,000Mbit' has a comma: write 1.000Mbit or 1000Mbit"),
    (units.parse_rate_bps, "0,125Gbit", "'0,125Gbit' has a comma: write 0.125Gbit"),
    (units.parse_probability_p32, "0,1 %", "'0,1 %' has a comma: write 0.1%"),
    (units.parse_size_bytes, "1,5MiB", "'1,5MiB' has a comma: write 1.5MiB"),
    (units.parse_buffer, "2,5ms", "'2,5ms' has a comma: write 2.5ms"),
    (units.parse_duration_ns, "fast", "'fast' is not a time: use 32ms or 1.5s"),
    (units.parse_duration_ns, "-3ms", "'-3ms' is not a time: use 32ms or 1.5s"),
    (
        units.parse_duration_ns,
        "3 years",
        "'3 years' has an unknown unit 'years': use ns, us, ms, s, min or h",
    ),
    (units.parse_duration_ns, "0.5ns", "'0.5ns' is not a whole number of nanoseconds"),
    (units.parse_duration_ns, "1e3ms", "'1e3ms' is not a time: use 32ms or 1.5s"),
    (units.parse_rate_bps, "10", "'10' has no unit: use a rate such as 10Gbit or 100Mbit"),
    (
        units.parse_rate_bps,
        "10Gbps",
        "'10Gbps' has an unknown unit 'Gbps': use bit, kbit, Mbit, Gbit or Tbit",
    ),
    (units.parse_rate_bps, "0.5bit", "'0.5bit' is not a whole number of bits per second"),
    (units.parse_probability_p32, "1", "'1' has no unit: write 1% for percent, or a fraction below 1"),
    (units.parse_probability_p32, "101%", "'101%' is above 100%"),
    (
        units.parse_probability_p32,
        "5ms",
        "'5ms' has an unknown unit 'ms': use a probability such as 0.01%",
    ),
    (
        units.parse_probability_p32,
        "0.00000001%",
        "'0.00000001%' is too small: the kernel counts in steps of 2.4e-8 %; write 0 for none",
    ),
    (units.parse_size_bytes, "8Mb", "'8Mb' has an unknown unit 'Mb': use B, KiB, MiB, GiB, kB, MB or GB"),
    (units.parse_size_bytes, "1.5B", "'1.5B' is not a whole number of bytes"),
    (units.parse_size_bytes, "big", "'big' is not a size: use 8MiB or 64KiB"),
    (units.parse_buffer, "100", "'100' has no unit: use bytes (8MiB), packets (100p) or time (5ms)"),
    (units.parse_buffer, "1.5p", "'1.5p' is not a whole number of packets"),
    (units.parse_buffer, "", "'' is not a buffer: use 8MiB, 100p or 5ms"),
    (units.parse_count, "0x10", "'0x10' is not a whole number"),
    (units.parse_count, "-1", "'-1' is not a whole number"),
]


@pytest.mark.parametrize(("parse", "text", "message"), REFUSALS)
def test_a_refusal_says_what_was_expected(parse, text: str, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError) as refusal:
        parse(text)
    assert str(refusal.value) == message


def test_formats_for_people() -> None:
    assert [units.format_duration(ns) for ns in (0, 7, 1500, 32_000_000, 16_000_001, 90 * 10**9, -2_000_000)] == [
        "0 ms", "7 ns", "1.5 us", "32 ms", "16.000001 ms", "90 s", "-2 ms",
    ]  # fmt: skip
    assert [units.format_rate(bps) for bps in (0, 8, 2_500_000_000, 10**10)] == [
        "0 bit/s", "8 bit/s", "2.5 Gbit/s", "10 Gbit/s",
    ]  # fmt: skip
    assert [units.format_size(n) for n in (0, 1000, 1024, 1514, 8_388_608, 432_500_000)] == [
        "0 B", "1 kB", "1 KiB", "1514 B", "8 MiB", "432.5 MB",
    ]  # fmt: skip
    assert [units.format_probability(p) for p in (0, 1, 429_497, 42_949_673, 2**31, 2**32 - 1)] == [
        "0%", "0.00000002%", "0.01%", "1%", "50%", "100%",
    ]  # fmt: skip
    assert units.compact("10 Gbit/s") == "10Gbit"


@given(st.integers(0, 10**16))
def test_duration_round_trip(ns: int) -> None:
    assert units.parse_duration_ns(units.format_duration(ns)) == ns


@given(st.integers(0, 10**15))
def test_rate_round_trip(bps: int) -> None:
    assert units.parse_rate_bps(units.format_rate(bps)) == bps
    assert units.parse_rate_bps(units.compact(units.format_rate(bps))) == bps


@given(st.integers(0, 10**15))
def test_size_round_trip(size: int) -> None:
    assert units.parse_size_bytes(units.format_size(size)) == size


@given(st.integers(0, 2**32 - 1))
def test_probability_round_trip(p32: int) -> None:
    assert units.parse_probability_p32(units.format_probability(p32)) == p32


@given(st.sampled_from(["bytes", "packets", "ns"]), st.integers(1, 10**12))
def test_buffer_round_trip(kind: str, amount: int) -> None:
    parts: units.BufferParts = {kind: amount}  # type: ignore[misc]
    assert units.parse_buffer(units.format_buffer(parts)) == parts


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (1140.14, "1140 MiB/s (9.564 Gbit/s)"),
        (999.96, "1000.0 MiB/s (8.388 Gbit/s)"),
        (43.52, "43.5 MiB/s (0.365 Gbit/s)"),
        (8.25, "8.2 MiB/s (0.0692 Gbit/s)"),
        (0.012, "0.0 MiB/s (0.000101 Gbit/s)"),
        (0, "0.0 MiB/s (0.000 Gbit/s)"),
    ],
)
def test_a_throughput_is_told_in_both_units(mib: float, text: str) -> None:
    """Four digits or one decimal of MiB/s; three digits at least of Gbit/s, however slow the path."""
    assert units.throughput_text(mib * 2**20) == text
    assert units.both_rates(mib * 2**20) == text.replace(" MiB/s", "").replace(" Gbit/s", "")


@pytest.mark.parametrize(
    ("mib", "text"), [(1023.4, "1023 MiB"), (99.96, "100 MiB"), (22.45, "22.4 MiB"), (2.754, "2.75 MiB"), (0, "0 MiB")]
)
def test_a_size_in_mib_has_three_digits_and_no_power_of_ten(mib: float, text: str) -> None:
    assert units.mib_text(mib * 2**20) == text
