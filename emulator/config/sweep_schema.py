"""The `sweep:` of a topology file: what a test run varies."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from emulator.config.field_types import example_schema, text_field
from emulator.config.schema import Form
from emulator.model import sweep_axes


def _many(key: str, expected: str) -> BeforeValidator:
    """A field that is one value of an axis or a list of them."""

    def read(value: object) -> Any:
        values = value if isinstance(value, list) else [value]
        texts = [one for one in values if isinstance(one, str)]
        if not values or len(texts) < len(values):
            raise ValueError(f"{expected}, or a list of them, was expected")
        return sweep_axes.parse_all(texts, partial(sweep_axes.parse, key))

    return BeforeValidator(read)


def _one(key: str, expected: str) -> BeforeValidator:
    return text_field(partial(sweep_axes.parse, key), expected)


def _several(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}, "examples": [[example]]})


Lanes = Annotated[tuple[str, ...], _many("lane", "a name"), _several("max")]
Durations = Annotated[tuple[int, ...], _many("rtt", "a time such as 32ms"), _several("32ms")]
Profiles = Annotated[tuple[str, ...], _many("profile", "a name"), _several("max")]
Windows = Annotated[tuple[int, ...], _many("window", "a size such as 1MiB"), _several("1MiB")]
Streams = Annotated[tuple[int, ...], _many("streams", "a whole number"), _several("8")]
Algorithms = Annotated[tuple[str, ...], _many("cc", "a name"), _several("bbr")]
Segments = Annotated[tuple[int, ...], _many("initcwnd", "a whole number"), _several("10")]
Directions = Annotated[tuple[str, ...], _many("direction", "a direction"), _several("inbound")]
Mtus = Annotated[tuple[int, ...], _many("mtu", "a whole number"), _several("9000")]
Rates = Annotated[tuple[int, ...], _many("rate", "a rate such as 10Gbit"), _several("10Gbit")]
Losses = Annotated[tuple[int, ...], _many("loss", "a probability"), _several("0.01%")]
Seconds = Annotated[int, _one("duration", "a time"), example_schema("30s")]
Repeats = Annotated[int, _one("repeats", "a whole number"), example_schema("3", "integer")]


class SweepForm(Form):
    """A test run over the topology: every key one value or a list, measured in all combinations."""

    lane: Lanes | None = Field(default=None, description="lanes to measure; all of them unless said")
    rtt: Durations | None = Field(default=None, description="the lane at each of these RTTs, instead of its own")
    profile: Profiles | None = Field(default=None, description="TCP profiles: default, max, founding")
    window: Windows | None = Field(default=None, description="receive windows, each a profile of its own")
    streams: Streams | None = Field(default=None, description="parallel streams, 128 at most")
    cc: Algorithms | None = Field(default=None, description="congestion controls: cubic, bbr, reno, htcp")
    initcwnd: Segments | None = Field(default=None, description="first congestion windows, in segments")
    direction: Directions | None = Field(default=None, description="which way the data flows: outbound, inbound, both")
    mtu: Mtus | None = Field(default=None, description="MTUs of the lane")
    rate: Rates | None = Field(default=None, description="bottlenecks, both ways")
    loss: Losses | None = Field(default=None, description="probabilities of losing a packet, per direction")
    duration: Seconds | None = Field(default=None, description="of a measurement, in s; from the RTT unless said")
    repeats: Repeats | None = Field(default=None, description="measurements of a cell at most, 30 at most")
