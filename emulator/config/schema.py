"""The forms of a topology file: which keys there are (`longhaul schema` prints them)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, WithJsonSchema

from emulator.config import path_profile_include
from emulator.config.field_types import (
    Address,
    Cells,
    CodePoint,
    Corruption,
    Count,
    Datapath,
    Depth,
    Destination,
    Duration,
    Loss,
    Net,
    OnDrift,
    OnFailure,
    Order,
    Overhead,
    Probability,
    Protocol,
    Queue,
    Rate,
    Rtt,
    Shape,
    Subnet,
    Switch,
    Word,
    YesNo,
)
from emulator.config.yaml_source import Tree
from emulator.model.topology import NAME_PATTERN


class Form(BaseModel):
    """Keys that are not known are mistakes."""

    model_config = ConfigDict(extra="forbid")


class _Common(Form):
    jitter: Duration | None = Field(default=None, description="spread of the delay, per direction; order is kept")
    distribution: Shape | None = Field(
        default=None, description="the jitter's shape: uniform (default), normal, pareto, paretonormal, or a table"
    )
    order: Order | None = Field(default=None, description="keep (default): jitter never reorders; free: it does")
    loss: Loss | None = Field(
        default=None,
        description="losing a packet, per direction, never halved: 1%, 1% burst 5, gilbert P R 1-H 1-K, "
        "4-state P13 P31 P32 P23 P14",
    )
    duplicate: Probability | None = Field(default=None, description="probability that a packet comes twice")
    corrupt: Corruption | None = Field(default=None, description="one bit flipped: 0.1% of the packets, or ber 1e-9")
    reorder: Probability | None = Field(default=None, description="probability of overtaking all that are on their way")
    ecn: YesNo | None = Field(default=None, description="yes: mark instead of losing, where the flow can take it")
    rate: Rate | None = Field(default=None, description="bottleneck per direction; 'none' for the ports' own speed")
    buffer: Depth | None = Field(
        default=None, description="the bottleneck's queue: 8MiB, 100p, 5ms; 'auto' for one BDP"
    )
    queue: Queue | None = Field(default=None, description="what a full buffer does; drop-tail unless said")
    overhead: Overhead | None = Field(default=None, description="bytes that every packet counts more at the rate")
    cells: Cells | None = Field(default=None, description="atm: packets fill cells of 53 bytes for 48 (DSL)")


class DirectionForm(_Common):
    """One direction of a lane; what is left out is taken from the lane."""

    delay: Duration | None = Field(default=None, description="one-way delay, instead of half the RTT")
    seed: Count | None = Field(default=None, description="of this direction's dice; else from the topology's")


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


def _profile(value: object, info: ValidationInfo) -> dict[str, DirectionForm]:
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
    profile: Annotated[
        dict[str, Any] | None,
        BeforeValidator(_profile),
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
