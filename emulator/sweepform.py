"""The `sweep:` of a topology file: what a test run varies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from emulator import units
from emulator.fields import Duration, example_schema, parse_rate_bps, text_field
from emulator.topologyform import Form


def _many(parse: Callable[[str], Any], expected: str) -> BeforeValidator:
    """A field that is one value or a list of them, each read by `parse`."""

    def read(value: object) -> Any:
        values = value if isinstance(value, list) else [value]
        texts = [one for one in values if isinstance(one, str)]
        if not values or len(texts) < len(values):
            raise ValueError(f"{expected}, or a list of them, was expected")
        return tuple(parse(text) for text in texts)

    return BeforeValidator(read)


def _some(text: str) -> int:
    number = units.parse_count(text)
    if not number:
        raise ValueError("0 is too few")
    return number


def _several(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}, "examples": [[example]]})


Durations = Annotated[tuple[int, ...], _many(units.parse_duration_ns, "a time such as 32ms"), _several("32ms")]
Rates = Annotated[tuple[int, ...], _many(parse_rate_bps, "a rate such as 10Gbit"), _several("10Gbit")]
Losses = Annotated[tuple[int, ...], _many(units.parse_probability_p32, "a probability"), _several("0.01%")]
Counts = Annotated[tuple[int, ...], _many(_some, "a whole number"), _several("8")]
Sizes = Annotated[tuple[int, ...], _many(units.parse_size_bytes, "a size such as 1MiB"), _several("1MiB")]
Words = Annotated[tuple[str, ...], _many(str, "a name"), _several("max")]
Some = Annotated[int, text_field(_some, "a whole number"), example_schema("3", "integer")]


class SweepForm(Form):
    """A test run over the topology: every key one value or a list, measured in all combinations."""

    lane: Words | None = Field(default=None, description="lanes to measure; all of them unless said")
    rtt: Durations | None = Field(default=None, description="the lane at each of these RTTs, instead of its own")
    profile: Words | None = Field(default=None, description="TCP profiles: default, max, founding")
    window: Sizes | None = Field(default=None, description="receive windows, each a profile of its own")
    streams: Counts | None = Field(default=None, description="parallel streams")
    cc: Words | None = Field(default=None, description="congestion controls: cubic, bbr, reno, htcp")
    initcwnd: Counts | None = Field(default=None, description="first congestion windows, in segments")
    direction: Words | None = Field(default=None, description="which way the data flows: outbound, inbound, both")
    mtu: Counts | None = Field(default=None, description="MTUs of the lane")
    rate: Rates | None = Field(default=None, description="bottlenecks, both ways")
    loss: Losses | None = Field(default=None, description="probabilities of losing a packet, per direction")
    duration: Duration | None = Field(default=None, description="of a measurement; from the RTT unless said")
    repeats: Some | None = Field(default=None, description="measurements of a cell at most")
