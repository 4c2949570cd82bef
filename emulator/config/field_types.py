"""The types of a file's fields: how users write each kind of value, and its parser to the model's units.

The table `impairment_keys` holds the types of the impairments; `schema` makes fields of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, ip_interface
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from emulator import units
from emulator.model import flow_match, geography
from emulator.model.topology import DATAPATHS, ON_DRIFT, ON_FAILURE, check_destination


def text_field(parse: Callable[[str], Any], expected: str) -> BeforeValidator:
    """A field that is written as text; `parse` reads it."""

    def read(value: object) -> Any:
        if not isinstance(value, str):
            raise ValueError(not_text(value, expected))
        return parse(value)

    return BeforeValidator(read)


def not_text(value: object, expected: str) -> str:
    """What is wrong with a list or a mapping where one value belongs."""
    return f"a {'list' if isinstance(value, list) else 'mapping'} is not allowed here: use {expected}"


def _word(text: str) -> str:
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in text):
        raise ValueError(f"{text!a} cannot be written in UTF-8")
    return text


def one_of(*words: str) -> Callable[[str], str]:
    """A parser for a fixed set of words."""

    def choose(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not one of {', '.join(words)}")
        return text

    return choose


def _rtt(value: object) -> int:
    """A round trip: a time, or the places and the access network that determine it."""
    if isinstance(value, str):
        return units.parse_duration_ns(value)
    if not isinstance(value, dict):
        raise ValueError(not_text(value, "a time, or {from: PLACE, to: PLACE}"))
    if strange := sorted(value.keys() - {"from", "to", "factor", "access"}):
        raise ValueError(f"unknown key {strange[0]!r}; the keys are from, to, factor, access")
    if ("from" in value) != ("to" in value) or not value.keys() & {"from", "access"}:
        raise ValueError("a place is missing: use {from: PLACE, to: PLACE} or {access: NAME}")
    factor = str(value.get("factor", geography.PATH_FACTOR))
    if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,6})?", factor) or float(factor) < 1:
        raise ValueError(f"factor {factor!r} is not a number of at least 1, such as 1.5")
    way = geography.trip(str(value["from"]), str(value["to"]), float(factor)).rtt_ns if "from" in value else 0
    return way + (geography.access_ns(str(value["access"])) if "access" in value else 0)


def _is_ipv6(text: str) -> bool:
    try:
        return ip_interface(text).version == 6
    except ValueError:
        return False


def _subnet(text: str) -> IPv4Network:
    if _is_ipv6(text):
        raise ValueError(f"{text} is of IPv6, but hosts have addresses of IPv4: use a network such as 10.77.0.0/24")
    try:
        return IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"{error}: use a network such as 10.77.0.0/24") from None


def _address(text: str) -> IPv4Address:
    if _is_ipv6(text):
        raise ValueError(f"{text} is of IPv6, but hosts have addresses of IPv4: use an address such as 10.77.0.4")
    try:
        return IPv4Address(text)
    except ValueError as error:
        raise ValueError(f"{error}: use an address such as 10.77.0.4") from None


def _destination(text: str) -> str:
    check_destination(text)
    return text


def example_schema(example: str, kind: str = "string") -> WithJsonSchema:
    return WithJsonSchema({"type": kind, "examples": [int(example) if kind == "integer" else example]})


def _choice(*words: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(words)})


Duration = Annotated[int, text_field(units.parse_duration_ns, "a time"), example_schema("32ms")]
Rate = Annotated[int, text_field(units.parse_rate_bps, "a rate"), example_schema("10Gbit")]
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
Count = Annotated[int, text_field(units.parse_count, "a whole number"), example_schema("1500", "integer")]
Word = Annotated[str, text_field(_word, "a word"), example_schema("new-york")]
YesNo = Annotated[bool, text_field(lambda text: one_of("yes", "no")(text) == "yes", "yes or no"), _choice("yes", "no")]
Switch = Annotated[
    bool,
    text_field(lambda text: one_of("true", "false")(text) == "true", "true or false"),
    WithJsonSchema({"type": "boolean"}),
]
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
