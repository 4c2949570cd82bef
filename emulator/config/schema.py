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
    vlan: Count | None = Field(default=None, description="802.1Q tag: many lanes share the two ports, one tag each")


class DefaultsForm(_Common):
    """What holds for every lane that does not say otherwise."""

    mtu: Count | None = Field(default=None, description="of both ports, 1500 unless said")
    line_rate: Rate | None = Field(default=None, description="speed of the ports, 10Gbit unless said")


class MatchForm(Form):
    """Which packets belong to a flow, whichever way they go; all that is said must be so."""

    hub: Net | None = Field(default=None, description="address or network at the hub's end")
    site: Net | None = Field(default=None, description="address or network at the site's end")
    protocol: Protocol | None = Field(default=None, description="tcp, udp, icmp, icmp6 or a number")
    port: Count | None = Field(default=None, description="of either end, tcp or udp")
    hub_port: Count | None = Field(default=None, description="at the hub's end")
    site_port: Count | None = Field(default=None, description="at the site's end")
    dscp: CodePoint | None = Field(default=None, description="a name such as ef or af41, or a number")
    vlan: Count | None = Field(default=None, description="802.1Q tag that the packets carry through the lane")


class FlowForm(_Common):
    """A way of their own for some packets. It has the lane's delay unless it says its own, and nothing else of it."""

    match: MatchForm
    rtt: Rtt | None = Field(default=None, description="round-trip time; the lane's unless said")
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
        default=None, description="round-trip time, split evenly: 32ms, {from: new-york, to: tokyo}, {access: lte}"
    )
    outbound: DirectionForm = Field(default=DirectionForm(), description="hub to site: its own delay, or any key above")
    inbound: DirectionForm = Field(default=DirectionForm(), description="site to hub: the same")
    ports: PortsForm | None = Field(default=None, description="two real ports: {hub: eth1, site: eth2}; else virtual")
    disabled: Switch = Field(default=False, description="keeps delay, jitter and loss on file, without effect")
    host: Destination | None = Field(default=None, description="the machine behind the site port, for ssh")
    address: Address | None = Field(default=None, description="the site's in the subnet, the next in order unless said")
    flows: dict[str, FlowForm] = Field(
        default={},
        description="packets with impairments of their own, by name; the first that matches counts",
        json_schema_extra={"propertyNames": {"pattern": f"^{NAME_PATTERN}$"}},
    )
    path_profile: Annotated[
        dict[str, Any] | None,
        BeforeValidator(_path_profile),
        WithJsonSchema({"type": "string", "examples": ["paris"]}),
    ] = Field(
        default=None, description="what longhaul record wrote of a path; what the lane says itself goes before it"
    )


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
