"""The schema of a topology file: its keys and their types (`longhaul schema` prints it)."""

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
    not_text,
)
from emulator.config.yaml_source import Tree
from emulator.model.impairment_keys import KEYS, Key, shared_keys
from emulator.model.topology import NAME_PATTERN
from emulator.system import bounded_file


class Form(BaseModel):
    """A mapping of the file; an unknown key is a mistake. The type of a value may be a class of the model."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def setting(key: Key) -> Any:
    """The type of a form's field for an impairment: read into the fields of `Impairment` that it means, by name."""

    def read(value: object, info: ValidationInfo) -> dict[str, Any]:
        if key.table and isinstance(value, list):
            return key.read_table(" ".join(map(str, value)))
        if not isinstance(value, str):
            raise ValueError(not_text(value, f"{key.expected}{' or a table' if key.table else ''}"))
        folder = (info.context or {}).get("folder")
        # Without a folder, as for a request, Longhaul opens no file: the client may name any file of the machine.
        if key.table and folder and value not in {one.word for one in key.choices} and (Path(folder) / value).exists():
            return key.read_table(_table(Path(folder), value))
        return key.read(value)

    return Annotated[dict[str, Any], BeforeValidator(read), WithJsonSchema(key.schema)]


def _table(folder: Path, name: str) -> str:
    """The text of a file of numbers. Raises ValueError."""
    try:
        return bounded_file.read_text(folder / name, bounded_file.DISTRIBUTION, errors="replace")
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from None


def settings_form(name: str, base: type[Form], keys: Iterable[Key], required: Container[str] = ()) -> Any:
    """A form with these impairments; the keys in `required` are mandatory."""
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
    """One direction of a lane; omitted settings are the lane's."""


def said(form: Form) -> dict[str, Any]:
    """The fields of `Impairment` that a form sets, by name."""
    given = [getattr(form, key.name, None) for key in KEYS]
    return {name: value for fields in given if fields is not None for name, value in fields.items()}


class PortsForm(Form):
    """The two interfaces of a lane on an appliance: name, altname, MAC or PCI address; shared by VLANs, if any."""

    hub: Word
    site: Word
    vlan: Count | None = Field(
        default=None, description="802.1Q tag: many lanes share two ports, each with its own tag", examples=[10]
    )


class DefaultsForm(_Common):
    """Settings of every lane that does not override them."""

    mtu: Count | None = Field(default=None, description="MTU of both ports; default 1500", examples=[9000])
    line_rate: Rate | None = Field(default=None, description="speed of both ports; default 10Gbit", examples=["25Gbit"])


class MatchForm(Form):
    """The packets of a flow, in both directions; a packet must match every given key."""

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
    """Impairments of their own for some packets. A flow inherits only the lane's delay, unless it has its own."""

    match: MatchForm
    rtt: Rtt | None = Field(default=None, description="round-trip time; default: the lane's")
    outbound: DirectionForm = DirectionForm()
    inbound: DirectionForm = DirectionForm()


def _path_profile(value: object, info: ValidationInfo) -> dict[str, DirectionForm]:
    """Both directions of a path profile beside the topology."""
    if not isinstance(value, str):
        raise ValueError(not_text(value, "the folder of a path profile"))
    folder = (info.context or {}).get("folder")
    if folder is None:
        raise ValueError(f"{value}: a request cannot name a path profile: use a topology file")
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
        default=None, description="two ports of the machine, {hub: eth1, site: eth2}; without them the lane is virtual"
    )
    disabled: Switch = Field(
        default=False, description="true: all settings except the bottleneck stay in the file but have no effect"
    )
    host: Destination | None = Field(
        default=None, description="SSH destination of the machine behind the site port", examples=["root@tokyo"]
    )
    address: Address | None = Field(
        default=None,
        description="address of the site in the subnet; default: the hub has the first one, the sites the next ones",
        examples=["10.77.0.9"],
    )
    flows: dict[str, FlowForm] = Field(
        default={},
        description="packets with impairments of their own, by name; a packet belongs to the first flow it matches",
        json_schema_extra={"propertyNames": {"pattern": f"^{NAME_PATTERN}$"}},
    )
    path_profile: Annotated[
        dict[str, Any] | None,
        BeforeValidator(_path_profile),
        WithJsonSchema({"type": "string", "examples": ["paris"]}),
    ] = Field(
        default=None,
        description="folder that `longhaul record` wrote; keys of the lane take precedence over its settings",
    )


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
    """The schema of a path in the file."""
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
