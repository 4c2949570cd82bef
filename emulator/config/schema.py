"""The forms of a topology file: which keys there are (`longhaul schema` prints them)."""

from __future__ import annotations

from collections.abc import Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (  # fmt: skip
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
)

from emulator.config import path_profile_include
from emulator.config.field_types import (
    Address,
    CodePoint,
    Count,
    Datapath,
    Destination,
    Net,
    OnDrift,
    OnFailure,
    Protocol,
    Rate,
    Rtt,
    Subnet,
    Switch,
    Word,
)
from emulator.config.yaml_source import Tree
from emulator.model.impairment_keys import KEYS, Key, shared_keys
from emulator.model.topology import NAME_PATTERN


class Form(BaseModel):
    """Keys that are not known are mistakes."""

    model_config = ConfigDict(extra="forbid")


def setting(key: Key) -> Any:
    """The type of a form's field for an impairment: read into the fields of `Impairment` that it means, by name."""

    def read(value: object, info: ValidationInfo) -> dict[str, Any]:
        if key.table and isinstance(value, list):
            return key.read_table(" ".join(map(str, value)))
        if not isinstance(value, str):
            also = " or a table" if key.table else ""
            raise ValueError(
                f"{key.expected}{also} was expected, not a {'list' if isinstance(value, list) else 'mapping'}"
            )
        folder = (info.context or {}).get("folder")
        # Without a folder, as for a request, no file is touched: what is named could be anybody's.
        if key.table and folder and value not in {one.word for one in key.choices} and (Path(folder) / value).is_file():
            return key.read_table((Path(folder) / value).read_text("utf-8", errors="replace"))
        return key.read(value)

    return Annotated[dict[str, Any], BeforeValidator(read), WithJsonSchema(key.schema)]


def settings_form(name: str, base: type[Form], keys: Iterable[Key], required: Container[str] = ()) -> Any:
    """A form with these impairments; those in `required` must be given."""
    given: dict[str, Any] = {
        key.name: (setting(key), Field(description=key.help))
        if key.name in required
        else (setting(key) | None, Field(default=None, description=key.help))
        for key in keys
    }
    return create_model(name, __base__=base, __module__=__name__, **given)


if TYPE_CHECKING:

    class _Common(Form): ...

    class _OneWay(_Common): ...

else:
    _Common = settings_form("_Common", Form, shared_keys())
    _OneWay = settings_form("_OneWay", _Common, [key for key in KEYS if key.one_way])


class DirectionForm(_OneWay):
    """One direction of a lane; what is left out is taken from the lane."""


def said(form: Form) -> dict[str, Any]:
    """The fields of `Impairment` that a form says something of, by name."""
    given = [getattr(form, key.name, None) for key in KEYS]
    return {name: value for fields in given if fields is not None for name, value in fields.items()}


class PortsForm(Form):
    """The two interfaces of a lane on an appliance: name, altname, MAC or PCI address; shared by VLANs, if any."""

    hub: Word
    site: Word
    vlan: Count | None = Field(
        default=None, description="802.1Q tag: many lanes share two ports, with one tag each", examples=[10]
    )


class DefaultsForm(_Common):
    """What holds for every lane that does not say otherwise."""

    mtu: Count | None = Field(default=None, description="MTU of both ports; default 1500", examples=[9000])
    line_rate: Rate | None = Field(default=None, description="speed of both ports; default 10Gbit", examples=["25Gbit"])


class MatchForm(Form):
    """Which packets belong to a flow, whichever way they go; all that is said must be so."""

    hub: Net | None = Field(
        default=None,
        description="address or network at the hub's end",
        examples=["10.77.0.1", "10.0.0.0/8", "fd00::/64"],
    )
    site: Net | None = Field(default=None, description="address or network at the site's end", examples=["10.77.0.3"])
    protocol: Protocol | None = Field(
        default=None,
        description="protocol by name (tcp, udp, icmp, icmp6) or number",
        examples=["tcp", "udp", "icmp", "icmp6", "132"],
    )
    port: Count | None = Field(default=None, description="TCP or UDP port of either end", examples=[5201])
    hub_port: Count | None = Field(default=None, description="TCP or UDP port at the hub's end", examples=[443])
    site_port: Count | None = Field(default=None, description="TCP or UDP port at the site's end", examples=[443])
    dscp: CodePoint | None = Field(
        default=None,
        description="code point of the type-of-service byte, by name or number",
        examples=["ef", "af41", "cs1", "10"],
    )
    vlan: Count | None = Field(
        default=None,
        description="802.1Q tag that the packets carry through the lane; without this key only untagged packets match",
        examples=[20],
    )


class FlowForm(_Common):
    """A way of their own for some packets. It has the lane's delay unless it says its own, and nothing else of it."""

    match: MatchForm
    rtt: Rtt | None = Field(default=None, description="round-trip time; default: the lane's")
    outbound: DirectionForm = DirectionForm()
    inbound: DirectionForm = DirectionForm()


def _path_profile(value: object, info: ValidationInfo) -> dict[str, DirectionForm]:
    """Both directions of a path profile beside the topology."""
    if not isinstance(value, str):
        raise ValueError("the folder of a path profile was expected")
    folder = (info.context or {}).get("folder")
    if folder is None:
        raise ValueError(f"{value}: a path profile is read for a topology file alone, not for a request")
    beside, said = path_profile_include.settings(Path(folder) / value)
    return {side: _measured(one, beside, f"{value}: {side}") for side, one in said.items()}


def _measured(said: dict[str, Tree], folder: Path, where: str) -> DirectionForm:
    try:
        return DirectionForm.model_validate(said, context={"folder": folder})
    except ValidationError as invalid:
        first = invalid.errors()[0]
        why = first.get("ctx", {}).get("error", first["msg"])
        raise ValueError(f"{where}.{'.'.join(map(str, first['loc']))}: {why}") from None


class LaneForm(DefaultsForm):
    """The lane between the hub and one site."""

    rtt: Rtt | None = Field(
        default=None,
        description="round-trip time, split evenly over both directions, to the nanosecond",
        examples=["32ms", "1.5s", {"from": "new-york", "to": "tokyo"}, {"access": "lte"}],
    )
    outbound: DirectionForm = Field(
        default=DirectionForm(), description="keys of the direction from the hub to the site"
    )
    inbound: DirectionForm = Field(
        default=DirectionForm(), description="keys of the direction from the site to the hub"
    )
    ports: PortsForm | None = Field(
        default=None, description="two real ports, {hub: eth1, site: eth2}; without it the lane is virtual"
    )
    disabled: Switch = Field(
        default=False, description="true: everything except the bottleneck has no effect, but stays in the file"
    )
    host: Destination | None = Field(
        default=None, description="SSH destination of the machine behind the site port", examples=["root@tokyo"]
    )
    address: Address | None = Field(
        default=None,
        description="address of the site in the subnet; default: the hub has the first, the sites the next in order",
        examples=["10.77.0.9"],
    )
    flows: dict[str, FlowForm] = Field(
        default={},
        description="packets with impairments of their own, by name; the first flow that matches counts",
        json_schema_extra={"propertyNames": {"pattern": f"^{NAME_PATTERN}$"}},
    )
    path_profile: Annotated[
        dict[str, Any] | None,
        BeforeValidator(_path_profile),
        WithJsonSchema({"type": "string", "examples": ["paris"]}),
    ] = Field(default=None, description="folder that `longhaul record` wrote; keys of the lane go before what it holds")


class TopologyForm(Form):
    """A Longhaul topology: a hub and its lanes."""

    model_config = ConfigDict(title="Longhaul topology")

    name: Word = Field(description="name of the topology", examples=["new-york"])
    hub: Word = Field(description="name of the local data centre, the middle of the star")
    hub_host: Destination | None = Field(
        default=None, description="SSH destination of the machine behind the hub ports", examples=["root@hub.lab"]
    )
    subnet: Subnet | None = Field(default=None, description="network of the hosts' addresses; default 10.77.0.0/24")
    seed: Count | None = Field(default=None, description="seed of every random impairment", examples=[7])
    on_drift: OnDrift | None = Field(
        default=None, description="what the daemon does about drift: report (default) only logs it, restore repairs it"
    )
    datapath: Datapath | None = Field(
        default=None, description="netem, wire (the wire engine), or auto (default): netem where the kernel has it"
    )
    on_failure: OnFailure | None = Field(
        default=None,
        description="when a lane's engine dies: cut (default) lets nothing pass, pass everything, unimpaired",
    )
    defaults: DefaultsForm = DefaultsForm()
    lanes: dict[str, LaneForm] = Field(
        default={}, json_schema_extra={"propertyNames": {"pattern": f"^{NAME_PATTERN}$"}}
    )


def form_at(path: tuple[str, ...]) -> type[Form]:
    """The form that a path of the file is read with."""
    names: dict[str, type[Form]] = {
        "outbound": DirectionForm, "inbound": DirectionForm, "ports": PortsForm, "match": MatchForm,
    }  # fmt: skip
    if not path:
        return TopologyForm
    if path == ("defaults",):
        return DefaultsForm
    if path[2:3] == ("flows",):
        return FlowForm if len(path) == 4 else names[path[4]]
    return LaneForm if len(path) == 2 else names[path[2]]
