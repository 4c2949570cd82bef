"""The fields of a file: how each kind of value is written and what is parsed of it, in the model's units.

A rate of 0 stands for "none" and an empty buffer for "auto", so that a lane can take back what the defaults say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo, WithJsonSchema

from emulator import units
from emulator.model import flow_match, geography, jitter_distribution, loss_model
from emulator.model.impairment import QUEUES
from emulator.model.topology import DATAPATHS, ON_DRIFT, ON_FAILURE, check_destination


def text_field(parse: Callable[[str], Any], expected: str) -> BeforeValidator:
    """A field that is written as text and read by `parse`."""

    def read(value: object) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"{expected} was expected, not a {'list' if isinstance(value, list) else 'mapping'}")
        return parse(value)

    return BeforeValidator(read)


def parse_rate_bps(text: str) -> int:
    bps = 0 if text == "none" else units.parse_rate_bps(text)
    if not bps and text != "none":
        raise ValueError(f"{text!r} carries nothing: write none for no bottleneck at all")
    return bps


def _buffer(text: str) -> dict[str, int]:
    return {} if text == "auto" else dict(units.parse_buffer(text).items())  # type: ignore[arg-type]


def _word(text: str) -> str:
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in text):
        raise ValueError(f"{text!a} cannot be written in UTF-8")
    return text


def parse_ber_e15(text: str) -> int:
    """A bit error rate such as "1e-9" in errors per 10^15 bits. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?(e-?[0-9]{1,2})?", text):
        raise ValueError(f"{text!r} is not a bit error rate such as 1e-9")
    errors = Fraction(text) * 10**15
    if errors.denominator != 1 or errors > 10**15:
        raise ValueError(f"{text!r} is not within 1e-15..1 in steps of 1e-15")
    return errors.numerator


def parse_corruption(text: str) -> dict[str, int]:
    """Corruption: "0.1%" of the packets, or "ber 1e-9"; as fields of the model. Raises ValueError."""
    if text.startswith("ber "):
        return {"corrupt_p32": 0, "ber_e15": parse_ber_e15(text.removeprefix("ber ").strip())}
    return {"corrupt_p32": units.parse_probability_p32(text), "ber_e15": 0}


def one_of(*words: str) -> Callable[[str], str]:
    """A parser of a choice."""

    def choose(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not one of {', '.join(words)}")
        return text

    return choose


def parse_overhead_bytes(text: str) -> int:
    """Bytes that every packet counts more at the bottleneck."""
    return units.parse_size_bytes(text)


def _distribution(value: object, info: ValidationInfo) -> str | tuple[int, ...]:
    """A shape's name, the numbers of a table, or a file of them beside the topology (tc's *.dist)."""
    if isinstance(value, list):
        return jitter_distribution.parse(" ".join(map(str, value)))
    if not isinstance(value, str):
        raise ValueError("a shape or a table was expected, not a mapping")
    if value in jitter_distribution.NAMES:
        return value
    folder = (info.context or {}).get("folder")
    # Without a folder, as for a request, no file is touched: what is named could be anybody's.
    path = None if folder is None else Path(folder) / value
    if path is None or not path.is_file():
        raise ValueError(f"{value!r} is not one of {', '.join(jitter_distribution.NAMES)}, nor a file with a table")
    return jitter_distribution.parse(path.read_text("utf-8", errors="replace"))


def _rtt(value: object) -> int:
    """A round trip: a time, or places and an access network that it follows from."""
    if isinstance(value, str):
        return units.parse_duration_ns(value)
    if not isinstance(value, dict):
        raise ValueError("a time, or {from: PLACE, to: PLACE} was expected, not a list")
    if strange := sorted(value.keys() - {"from", "to", "factor", "access"}):
        raise ValueError(f"{strange[0]!r} is unknown here: from, to, factor and access are known")
    if ("from" in value) != ("to" in value) or not value.keys() & {"from", "access"}:
        raise ValueError("{from: PLACE, to: PLACE} was expected, or {access: NAME}")
    factor = str(value.get("factor", geography.PATH_FACTOR))
    if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,6})?", factor) or float(factor) < 1:
        raise ValueError(f"factor {factor!r} is not a number of at least 1, such as 1.5")
    way = geography.trip(str(value["from"]), str(value["to"]), float(factor)).rtt_ns if "from" in value else 0
    return way + (geography.access_ns(str(value["access"])) if "access" in value else 0)


def _subnet(text: str) -> IPv4Network:
    try:
        return IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"{error}: a network such as 10.77.0.0/24 was expected") from None


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is unknown: write true or false")
    return text == "true"


def _address(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError as error:
        raise ValueError(f"{error}: an address such as 10.77.0.4 was expected") from None


def _destination(text: str) -> str:
    check_destination(text)
    return text


def example_schema(example: str, kind: str = "string") -> WithJsonSchema:
    return WithJsonSchema({"type": kind, "examples": [int(example) if kind == "integer" else example]})


def _choice(*words: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(words)})


Duration = Annotated[int, text_field(units.parse_duration_ns, "a time"), example_schema("32ms")]
Rate = Annotated[int, text_field(parse_rate_bps, "a rate"), example_schema("10Gbit")]
Rtt = Annotated[
    int,
    BeforeValidator(_rtt),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "examples": ["32ms"]},
                {"type": "object", "examples": [{"from": "new-york", "to": "tokyo"}]},
            ]
        }
    ),
]
Probability = Annotated[int, text_field(units.parse_probability_p32, "a probability"), example_schema("0.01%")]
Loss = Annotated[int | loss_model.LossModel, text_field(loss_model.parse, "a loss"), example_schema("1% burst 5")]
Corruption = Annotated[dict[str, int], text_field(parse_corruption, "a corruption"), example_schema("ber 1e-9")]
Shape = Annotated[
    str | tuple[int, ...],
    BeforeValidator(_distribution),
    WithJsonSchema({"anyOf": [{"type": "string", "examples": [*jitter_distribution.NAMES]}, {"type": "array"}]}),
]
Depth = Annotated[dict[str, int], text_field(_buffer, "a buffer"), example_schema("8MiB")]
Count = Annotated[int, text_field(units.parse_count, "a whole number"), example_schema("1500", "integer")]
Word = Annotated[str, text_field(_word, "a word"), example_schema("new-york")]
Order = Annotated[str, text_field(one_of("keep", "free"), "keep or free"), _choice("keep", "free")]
YesNo = Annotated[bool, text_field(lambda text: one_of("yes", "no")(text) == "yes", "yes or no"), _choice("yes", "no")]
Cells = Annotated[str, text_field(one_of("none", "atm"), "none or atm"), _choice("none", "atm")]
Queue = Annotated[str, text_field(one_of(*QUEUES), "a queue"), _choice(*QUEUES)]
Overhead = Annotated[int, text_field(parse_overhead_bytes, "a size"), example_schema("22B")]
Switch = Annotated[bool, text_field(_switch, "true or false"), WithJsonSchema({"type": "boolean"})]
OnDrift = Annotated[str, text_field(one_of(*ON_DRIFT), "a word"), _choice(*ON_DRIFT)]
Datapath = Annotated[str, text_field(one_of(*DATAPATHS), "a word"), _choice(*DATAPATHS)]
OnFailure = Annotated[str, text_field(one_of(*ON_FAILURE), "a word"), _choice(*ON_FAILURE)]
Destination = Annotated[str, text_field(_destination, "an SSH destination"), example_schema("root@japan.example.org")]
Address = Annotated[IPv4Address, text_field(_address, "an address"), example_schema("10.77.0.4")]
Net = Annotated[
    flow_match.Network, text_field(flow_match.parse_network, "an address or a network"), example_schema("10.77.0.3")
]
Protocol = Annotated[int, text_field(flow_match.parse_protocol, "a protocol"), example_schema("tcp")]
CodePoint = Annotated[int, text_field(flow_match.parse_dscp, "a code point"), example_schema("ef")]
Subnet = Annotated[IPv4Network, text_field(_subnet, "a network"), example_schema("10.77.0.0/24")]
