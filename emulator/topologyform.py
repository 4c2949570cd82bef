"""The forms of a topology file: which keys there are and how each value is written (`longhaul schema` prints them).

Fields hold what was parsed, in the model's units. A rate of 0 stands for "none" and an empty buffer for "auto", so
that a lane can take back what the defaults say.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from emulator import units
from emulator.model import DATAPATHS, NAME_PATTERN, ON_FAILURE


def _text(parse: Callable[[str], Any], expected: str) -> BeforeValidator:
    """A field that is written as text and read by `parse`."""

    def read(value: object) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"{expected} was expected, not a {'list' if isinstance(value, list) else 'mapping'}")
        return parse(value)

    return BeforeValidator(read)


def _rate(text: str) -> int:
    bps = 0 if text == "none" else units.parse_rate_bps(text)
    if not bps and text != "none":
        raise ValueError(f"{text!r} carries nothing: write none for no bottleneck at all")
    return bps


def _buffer(text: str) -> dict[str, int]:
    return {} if text == "auto" else dict(units.parse_buffer(text).items())  # type: ignore[arg-type]


def _subnet(text: str) -> IPv4Network:
    try:
        return IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"{error}: a network such as 10.77.0.0/24 was expected") from None


def _schema(example: str, kind: str = "string") -> WithJsonSchema:
    return WithJsonSchema({"type": kind, "examples": [int(example) if kind == "integer" else example]})


Duration = Annotated[int, _text(units.parse_duration_ns, "a time"), _schema("32ms")]
Rate = Annotated[int, _text(_rate, "a rate"), _schema("10Gbit")]
Loss = Annotated[int, _text(units.parse_probability_p32, "a probability"), _schema("0.01%")]
Depth = Annotated[dict[str, int], _text(_buffer, "a buffer"), _schema("8MiB")]
Count = Annotated[int, _text(units.parse_count, "a whole number"), _schema("1500", "integer")]
Word = Annotated[str, _text(str, "a word")]


def _one_of(*words: str) -> Callable[[str], str]:
    """A parser of one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not known: {', '.join(words[:-1])} or {words[-1]} was expected")
        return text

    return read


def _words(words: tuple[str, ...]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(words)})


Datapath = Annotated[str, _text(_one_of(*DATAPATHS), "a word"), _words(DATAPATHS)]
OnFailure = Annotated[str, _text(_one_of(*ON_FAILURE), "a word"), _words(ON_FAILURE)]
Subnet = Annotated[IPv4Network, _text(_subnet, "a network"), _schema("10.77.0.0/24")]


class Form(BaseModel):
    """Keys that are not known are mistakes."""

    model_config = ConfigDict(extra="forbid")


class _Common(Form):
    jitter: Duration | None = Field(default=None, description="spread of the delay, per direction; order is kept")
    loss: Loss | None = Field(default=None, description="probability of losing a packet, per direction, never halved")
    rate: Rate | None = Field(default=None, description="bottleneck per direction; 'none' for the ports' own speed")
    buffer: Depth | None = Field(
        default=None, description="the bottleneck's queue: 8MiB, 100p, 5ms; 'auto' for one BDP"
    )


class DirectionForm(_Common):
    """One direction of a lane; what is left out is taken from the lane."""

    delay: Duration | None = Field(default=None, description="one-way delay, instead of half the RTT")


class PortsForm(Form):
    """The two interfaces of a lane on an appliance."""

    hub: Word
    site: Word


class DefaultsForm(_Common):
    """What holds for every lane that does not say otherwise."""

    mtu: Count | None = None
    line_rate: Rate | None = Field(default=None, description="speed of the ports, 10Gbit unless said")


class LaneForm(DefaultsForm):
    """The lane between the hub and one site."""

    rtt: Duration | None = Field(default=None, description="round-trip time, split evenly over both directions")
    outbound: DirectionForm = DirectionForm()
    inbound: DirectionForm = DirectionForm()
    ports: PortsForm | None = None


class TopologyForm(Form):
    """A Longhaul topology: a hub and its lanes."""

    model_config = ConfigDict(title="Longhaul topology")

    name: Word
    hub: Word = Field(description="the local data centre, at the middle of the star")
    subnet: Subnet | None = Field(default=None, description="addresses of the hub and the sites of virtual lanes")
    seed: Count | None = Field(default=None, description="drives every random impairment")
    datapath: Datapath | None = Field(
        default=None, description="what impairs: netem, the wire engine, or auto: netem where the kernel has it"
    )
    on_failure: OnFailure | None = Field(
        default=None, description="when an engine dies, its lane is cut or lets all pass"
    )
    defaults: DefaultsForm = DefaultsForm()
    lanes: dict[str, LaneForm] = Field(
        default={}, json_schema_extra={"propertyNames": {"pattern": f"^{NAME_PATTERN}$"}}
    )


def form_at(path: tuple[str, ...]) -> type[Form]:
    """The form that a path of the file is read with."""
    names: dict[str, type[Form]] = {"outbound": DirectionForm, "inbound": DirectionForm, "ports": PortsForm}
    if not path:
        return TopologyForm
    if path == ("defaults",):
        return DefaultsForm
    return LaneForm if len(path) == 2 else names[path[2]]
