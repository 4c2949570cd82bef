"""Text with units to integers and back: the only parser of "32ms", "10Gbit", "0.01%" and "8MiB".

All values are exact: decimal digits become integers by fractions, never by floating point. A value that is not a whole
number of the base unit is a ValueError that says what to use. `parse_*` reads the text of `format_*` back to the same
value.
Measured and calculated values are rounded for people: `throughput_text`, `mib_text`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TypedDict

_AMOUNT = re.compile(r"\s*(\d{1,30}(?:\.\d{1,30})?|\.\d{1,30})\s*([a-zA-Zµμ/%]*)\s*")
_WITH_COMMA = re.compile(r"(\d{1,30}),(\d{1,30})\s*([a-zA-Zµμ/%]*)")
_ONE_P32 = 2**32 - 1

KIB_BYTES, MIB_BYTES = 2**10, 2**20

_DURATIONS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
_RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12}
_SIZES = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


class BufferParts(TypedDict, total=False):
    """The depth of a buffer in one of its three units; fits `model.Buffer(**parts)`."""

    bytes: int
    packets: int
    ns: int


def _amount(text: str, kind: str, examples: str) -> tuple[Fraction, str]:
    """The number and the unit in a text such as "1.5 ms"."""
    match = _AMOUNT.fullmatch(text)
    if not match:
        raise ValueError(_comma(text) or f"{text!r} is not {kind}: use {examples}")
    return Fraction(match[1]), match[2]


def _comma(text: str) -> str:
    """What to write instead of a number with one comma, for an error; empty for any other text."""
    match = _WITH_COMMA.fullmatch(text.strip())
    if not match:
        return ""
    before, after, unit = match.groups()
    # Three digits after the comma may be thousands.
    thousands = f" or {before}{after}{unit}" if len(after) == 3 and before != "0" else ""
    return f"{text!r} has a comma: write {before}.{after}{unit}{thousands}"


def _whole(value: Fraction, text: str, unit: str) -> int:
    if value.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of {unit}")
    return value.numerator


def parse_duration_ns(text: str) -> int:
    """A duration in ns. Units: ns us ms s min h; a bare 0 needs none. Raises ValueError."""
    number, unit = _amount(text, "a time", "32ms or 1.5s")
    if not unit and number:
        raise ValueError(f"{text!r} has no unit: write {text.strip()}ms for milliseconds")
    if unit and unit not in _DURATIONS:
        raise ValueError(f"{text!r} has an unknown unit {unit!r}: use ns, us, ms, s, min or h")
    return _whole(number * _DURATIONS.get(unit, 1), text, "nanoseconds")


def parse_rate_bps(text: str) -> int:
    """A rate in bit/s. Units: bit kbit Mbit Gbit Tbit, in any case, "/s" allowed. Raises ValueError.

    "bps" is refused: it means bytes to tc and bits to everybody else.
    """
    number, unit = _amount(text, "a rate", "10Gbit or 100Mbit")
    if not unit:
        raise ValueError(f"{text!r} has no unit: use a rate such as 10Gbit or 100Mbit")
    factor = _RATES.get(unit.lower().removesuffix("/s"))
    if factor is None:
        raise ValueError(f"{text!r} has an unknown unit {unit!r}: use bit, kbit, Mbit, Gbit or Tbit")
    return _whole(number * factor, text, "bits per second")


def parse_probability_p32(text: str) -> int:
    """A probability in parts per 2^32 - 1, rounded to the nearest: "0.01%", or "0.0001" as a fraction below one.

    A bare 1 is refused because it is ambiguous, and a value that would round to zero because it is not zero. Raises
    ValueError.
    """
    number, unit = _amount(text, "a probability", "0.01%")
    if unit not in ("", "%"):
        raise ValueError(f"{text!r} has an unknown unit {unit!r}: use a probability such as 0.01%")
    if not unit and number >= 1:
        raise ValueError(f"{text!r} has no unit: write {text.strip()}% for percent, or a fraction below 1")
    share = number / 100 if unit else number
    if share > 1:
        raise ValueError(f"{text!r} is above 100%")
    p32 = int(share * _ONE_P32 + Fraction(1, 2))
    if share and not p32:
        raise ValueError(f"{text!r} is too small: the kernel counts in steps of 2.4e-8 %; write 0 for none")
    return p32


def parse_size_bytes(text: str) -> int:
    """A size in bytes; a bare number is bytes. Units: B, kB MB GB TB (1000), KiB MiB GiB TiB (1024).

    Raises ValueError.
    """
    number, unit = _amount(text, "a size", "8MiB or 64KiB")
    if unit and unit not in _SIZES:
        raise ValueError(f"{text!r} has an unknown unit {unit!r}: use B, KiB, MiB, GiB, kB, MB or GB")
    return _whole(number * _SIZES.get(unit, 1), text, "bytes")


def parse_buffer(text: str) -> BufferParts:
    """A buffer's depth: bytes ("8MiB"), packets of full MTU ("100p") or time at the rate ("5ms").

    Raises ValueError.
    """
    number, unit = _amount(text, "a buffer", "8MiB, 100p or 5ms")
    if unit in ("p", "packets"):
        return {"packets": _whole(number, text, "packets")}
    if unit in _DURATIONS:
        return {"ns": parse_duration_ns(text)}
    if unit in _SIZES:
        return {"bytes": parse_size_bytes(text)}
    wrong = f"an unknown unit {unit!r}" if unit else "no unit"
    raise ValueError(f"{text!r} has {wrong}: use bytes (8MiB), packets (100p) or time (5ms)")


def parse_count(text: str) -> int:
    """A plain whole number, not negative. Raises ValueError."""
    if not re.fullmatch(r"\s*[0-9]{1,30}\s*", text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _decimal(value: int, factor: int) -> str:
    """value / factor in exact decimal digits; `factor` has no prime factors but 2 and 5."""
    whole, rest = divmod(value, factor)
    digits = ""
    while rest:
        digit, rest = divmod(rest * 10, factor)
        digits += str(digit)
    return f"{whole}.{digits}" if digits else str(whole)


def _largest(value: int, units: Mapping[str, int]) -> str:
    """The value in the largest unit that leaves at least one before the point."""
    unit = max((u for u in units if units[u] <= value), key=units.__getitem__)
    return f"{_decimal(value, units[unit])} {unit}"


def format_duration(ns: int) -> str:
    """A duration for people, exact: "32 ms", "1.5 s", "16.000001 ms"; zero is "0 ms"."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return sign + _largest(ns, {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}) if ns else "0 ms"


def format_rate(bps: int) -> str:
    """A rate for people, exact: "10 Gbit/s"."""
    units = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9, "Tbit/s": 10**12}
    return _largest(bps, units) if bps else "0 bit/s"


def format_packet_rate(pps: int) -> str:
    """A packet rate for people, rounded to three digits: "14.9 Mpps", "73.1 kpps"."""
    unit, factor = next((one for one in (("Mpps", 10**6), ("kpps", 10**3)) if pps >= one[1]), ("pps", 1))
    value = pps / factor
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def mib_per_s(bytes_per_s: float) -> str:
    """The number of MiB/s: a whole number from 1000 on, one decimal below: "1140", "43.5"."""
    value = bytes_per_s / MIB_BYTES
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def gbit_per_s(bytes_per_s: float) -> str:
    """The number of Gbit/s, with three decimals, and three digits where it is small: "9.564", "0.0692"."""
    value = bytes_per_s * 8 / 1e9
    decimals = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:.{min(max(3, decimals), 9)}f}"


def both_rates(bytes_per_s: float) -> str:
    """A throughput as a table shows it below `THROUGHPUT`: "43.5 (0.365)"."""
    return f"{mib_per_s(bytes_per_s)} ({gbit_per_s(bytes_per_s)})"


def throughput_text(bytes_per_s: float) -> str:
    """A throughput for people, in both units: "43.5 MiB/s (0.365 Gbit/s)"."""
    return f"{mib_per_s(bytes_per_s)} MiB/s ({gbit_per_s(bytes_per_s)} Gbit/s)"


def mib_text(size_bytes: float) -> str:
    """A size that was measured or calculated, rounded to three digits, or to whole MiB: "2.75 MiB", "1023 MiB"."""
    value = size_bytes / MIB_BYTES
    return f"{value:.0f} MiB" if value >= 100 else f"{value:.3g} MiB"


def format_size(size_bytes: int) -> str:
    """A size for people, exact, in whichever unit is shortest: "8 MiB", "432.5 MB", "1514 B"."""
    fitting = [u for u in _SIZES if u != "KB" and _SIZES[u] <= max(size_bytes, 1)]
    texts = [f"{_decimal(size_bytes, _SIZES[u])} {u}" for u in fitting]
    return min(texts, key=lambda text: len(text.replace("i", "")))


def format_probability(p32: int) -> str:
    """A probability for people: the shortest percentage that means this very number, "0.01%"."""
    for digits in range(13):
        scale = 10 ** (digits + 2)
        nearest = (2 * p32 * scale + _ONE_P32) // (2 * _ONE_P32)
        text = _decimal(nearest, 10**digits) + "%"
        if int(Fraction(nearest, scale) * _ONE_P32 + Fraction(1, 2)) == p32:
            return text
    raise AssertionError("twelve decimals tell every p32 apart")


def format_buffer(parts: BufferParts) -> str:
    """A buffer's depth as `parse_buffer` reads it: "8 MiB", "100 p" or "5 ms"."""
    if "packets" in parts:
        return f"{parts['packets']} p"
    return format_duration(parts["ns"]) if "ns" in parts else format_size(parts["bytes"])


def compact(text: str) -> str:
    """A formatted quantity as one writes it in a file or on a command line: "10 Gbit/s" becomes "10Gbit"."""
    return text.replace(" ", "").removesuffix("/s")
