"""The sites behind the hub that give groups of flows an RTT of their own; these cross the cell's lane as all others do.

A lane's flows with impairments of their own have a bottleneck each. Flows that share one and differ in their RTT come
from different places: through the hub, from a further site whose lane has the rest of the RTT.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from itertools import islice

from msgspec.structs import replace

from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.flows_result import contest_of
from emulator.model.flow_group import FlowGroup
from emulator.model.sweep_axes import OUTBOUND
from emulator.model.topology import Lane
from emulator.units import format_duration


def with_further_sites(spec: CellSpec) -> CellSpec:
    """The cell with a further site for each group that has an RTT of its own. Raises ValueError."""
    far = [(n, group) for n, group in enumerate(contest_of(spec).groups) if group.rtt_ns is not None]
    if not far:
        return spec
    if spec.direction != OUTBOUND:
        raise ValueError("a group with an RTT of its own sends towards the lane's site: use direction outbound")
    if spec.lane.ports or spec.topology.hub_host:
        raise ValueError("a group has an RTT of its own between namespaces only: remove rtt, or measure in the lab")
    lanes = (_lane(spec, n, group) for n, group in far)
    return replace(spec, topology=replace(spec.topology, lanes=(spec.lane, *lanes)))


def name_of(number: int) -> str:
    """The further site of the group with this number."""
    return f"group-{number + 1}"


def _lane(spec: CellSpec, number: int, group: FlowGroup) -> Lane:
    """The lane of a further site: what the group's RTT has above that of the cell's lane, and no bottleneck."""
    assert group.rtt_ns is not None
    if group.rtt_ns <= spec.lane.rtt_ns:
        rtt = format_duration(spec.lane.rtt_ns)
        raise ValueError(f"{group}: its RTT is not above the lane's, which is {rtt}: use a longer one, or none")
    lane = Lane(name_of(number), mtu=spec.lane.mtu, line_rate_bps=spec.lane.line_rate_bps)
    return replace(lane.with_rtt(group.rtt_ns - spec.lane.rtt_ns), address=_address(spec, number))


def _address(spec: CellSpec, number: int) -> IPv4Address:
    """An address at the end of the subnet, which neither the hub nor the lane's site has."""
    used = {spec.topology.address(host).ip for host in (spec.topology.hub, spec.lane.name)}
    places = range(2, spec.topology.subnet.num_addresses)
    free = (ip for place in places if (ip := spec.topology.subnet[-place]) not in used)
    found = next(islice(free, number, None), None)
    if found is None:
        subnet = spec.topology.subnet
        raise ValueError(f"the subnet {subnet} has no free address for {name_of(number)}: use a larger one")
    return found
