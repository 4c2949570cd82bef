"""The forms of a topology file: which keys there are and how each value is written (`longhaul schema` prints them).

Fields hold what was parsed, in the model's units. A rate of 0 stands for "none" and an empty buffer for "auto", so
that a lane can take back what the defaults say.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from emulator import units
from emulator.model import DATAPATHS, NAME_PATTERN, ON_DRIFT, ON_FAILURE, check_destination


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


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is unknown: write true or false")
    return text == "true"


def _one_of(*words: str) -> Callable[[str], str]:
    """A parser of one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is unknown: write {', '.join(words[:-1])} or {words[-1]}")
        return text

    return read


def _words(words: tuple[str, ...]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(words)})


def _address(text: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except ValueError as error:
        raise ValueError(f"{error}: an address such as 10.77.0.4 was expected") from None


def _destination(text: str) -> str:
    check_destination(text)
    return text


def _schema(example: str, kind: str = "string") -> WithJsonSchema:
    return WithJsonSchema({"type": kind, "examples": [int(example) if kind == "integer" else example]})


Duration = Annotated[int, _text(units.parse_duration_ns, "a time"), _schema("32ms")]
Rate = Annotated[int, _text(_rate, "a rate"), _schema("10Gbit")]
Loss = Annotated[int, _text(units.parse_probability_p32, "a probability"), _schema("0.01%")]
Depth = Annotated[dict[str, int], _text(_buffer, "a buffer"), _schema("8MiB")]
Count = Annotated[int, _text(units.parse_count, "a whole number"), _schema("1500", "integer")]
Word = Annotated[str, _text(str, "a word")]
Switch = Annotated[bool, _text(_switch, "true or false"), WithJsonSchema({"type": "boolean"})]
OnDrift = Annotated[str, _text(_one_of(*ON_DRIFT), "a word"), _words(ON_DRIFT)]
Datapath = Annotated[str, _text(_one_of(*DATAPATHS), "a word"), _words(DATAPATHS)]
OnFailure = Annotated[str, _text(_one_of(*ON_FAILURE), "a word"), _words(ON_FAILURE)]
Destination = Annotated[str, _text(_destination, "an SSH destination"), _schema("root@japan.example.org")]
Address = Annotated[IPv4Address, _text(_address, "an address"), _schema("10.77.0.4")]
Subnet = Annotated[IPv4Network, _text(_subnet, "a network"), _schema("10.77.0.0/24")]


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
Rates = Annotated[tuple[int, ...], _many(_rate, "a rate such as 10Gbit"), _several("10Gbit")]
Losses = Annotated[tuple[int, ...], _many(units.parse_probability_p32, "a probability"), _several("0.01%")]
Counts = Annotated[tuple[int, ...], _many(_some, "a whole number"), _several("8")]
Sizes = Annotated[tuple[int, ...], _many(units.parse_size_bytes, "a size such as 1MiB"), _several("1MiB")]
Words = Annotated[tuple[str, ...], _many(str, "a name"), _several("max")]
Some = Annotated[int, _text(_some, "a whole number"), _schema("3", "integer")]


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
    """The two interfaces of a lane on an appliance: name, altname, MAC or PCI address; shared by VLANs, if any."""

    hub: Word
    site: Word
    vlan: Count | None = Field(default=None, description="802.1Q tag: many lanes share the two ports, one tag each")


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
    disabled: Switch = Field(default=False, description="keeps delay, jitter and loss on file, without effect")
    host: Destination | None = Field(default=None, description="the machine behind the site port, for ssh")
    address: Address | None = Field(default=None, description="the site's in the subnet, the next in order unless said")


class SweepForm(Form):
    """A test run over the topology: every key one value or a list, measured in all combinations."""

    lane: Words | None = Field(default=None, description="lanes to measure; all of them unless said")
    rtt: Durations | None = Field(default=None, description="the lane at each of these RTTs, instead of its own")
    profile: Words | None = Field(default=None, description="TCP profiles: default, max, founding")
    window: Sizes | None = Field(default=None, description="receive windows, each a profile of its own")
    streams: Counts | None = Field(default=None, description="parallel streams")
    cc: Words | None = Field(default=None, description="congestion controls: cubic, bbr, reno, htcp")
    initcwnd: Counts | None = Field(default=None, description="first congestion windows, in segments")
    direction: Words | None = Field(default=None, description="which way the data flows: outbound, inbound")
    mtu: Counts | None = Field(default=None, description="MTUs of the lane")
    rate: Rates | None = Field(default=None, description="bottlenecks, both ways")
    loss: Losses | None = Field(default=None, description="probabilities of losing a packet, per direction")
    duration: Duration | None = Field(default=None, description="of a measurement; from the RTT unless said")
    repeats: Some | None = Field(default=None, description="measurements of a cell at most")


class TopologyForm(Form):
    """A Longhaul topology: a hub and its lanes."""

    model_config = ConfigDict(title="Longhaul topology")

    name: Word
    hub: Word = Field(description="the local data centre, at the middle of the star")
    hub_host: Destination | None = Field(default=None, description="the machine behind the hub ports, for ssh")
    subnet: Subnet | None = Field(default=None, description="addresses of the hub's and the sites' hosts")
    seed: Count | None = Field(default=None, description="drives every random impairment")
    on_drift: OnDrift | None = Field(
        default=None, description="what the daemon does when somebody changes a lane: report (the default) or restore"
    )
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
    sweep: SweepForm = SweepForm()


def form_at(path: tuple[str, ...]) -> type[Form]:
    """The form that a path of the file is read with."""
    names: dict[str, type[Form]] = {"outbound": DirectionForm, "inbound": DirectionForm, "ports": PortsForm}
    if not path:
        return TopologyForm
    if path in (("defaults",), ("sweep",)):
        return DefaultsForm if path == ("defaults",) else SweepForm
    return LaneForm if len(path) == 2 else names[path[2]]
