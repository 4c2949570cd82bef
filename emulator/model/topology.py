"""The user's intent: topologies of lanes, each impaired in both directions, and TCP profiles.

Pure values, valid once built: a constructor raises ValueError for contradictory values. Integers only, with the unit
in the name: ns, bit/s, bytes, and `p32` for a probability in parts per 2^32 - 1 (the kernel's own).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from emulator.errors import no_such
from emulator.model import bottleneck, device_names
from emulator.model.flow_match import MOST_FLOWS, Match
from emulator.model.impairment import MOST_RATE_BPS, Impairment
from emulator.model.schedule import Schedule
from emulator.units import format_duration, format_rate

LINE_RATE_BPS = 10_000_000_000
"""The default speed of the ports: 10 Gbit/s."""
MOST_LANES = 4094
"""As many as two ports carry by VLANs."""
MOST_VIRTUAL_LANES = 1023
"""What one bridge has ports for, besides the hub's (BR_MAX_PORTS)."""
LEAST_MTU, MOST_MTU = 576, 65_521
"""The MTU that every IPv4 host accepts, and the one whose frame has 65535 bytes with its header."""
DATAPATHS = ("auto", "netem", "wire")
"""The datapaths: the kernel's netem, the wire engine, or netem where the kernel has it, else the engine."""
ON_FAILURE = ("cut", "pass")
"""What happens to a lane when its engine dies: it passes nothing, or everything unimpaired."""

SUBNET = IPv4Network("10.77.0.0/24")
"""The default subnet of the hosts of virtual lanes."""

UNIMPAIRED = Impairment()
"""No impairment."""

NAME_PATTERN = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
"""A site's name: a host name label of RFC 1123, in lower case."""

DESTINATION_PATTERN = r"([A-Za-z0-9_][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_:\[][A-Za-z0-9_.:%\]-]*"
"""A host for ssh(1): a name, an address or an alias, with or without a user; never a word that begins with "-"."""

ON_DRIFT = ("report", "restore")
"""What the daemon does about drift: report it only, or restore the lane."""


class Ports(Struct, frozen=True):
    """The two network interfaces of a lane on an appliance: by name, altname, MAC or PCI address.

    With `vlan`, both are trunks that many lanes share; the lane's frames carry this 802.1Q tag on them.
    """

    hub: str
    site: str
    vlan: int | None = None

    def __post_init__(self) -> None:
        if self.hub == self.site:
            raise ValueError(f"hub and site port are both {self.hub}: use two ports")
        if self.vlan is not None and not 1 <= self.vlan <= 4094:
            raise ValueError(f"vlan {self.vlan} is not within 1..4094")


class Flow(Struct, frozen=True):
    """Packets of a lane with separate impairments in both directions; all other packets have the lane's."""

    name: str
    match: Match
    outbound: Impairment = UNIMPAIRED
    inbound: Impairment = UNIMPAIRED

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME_PATTERN, self.name):
            raise ValueError(f"flow name {self.name!r} is not of a-z, 0-9 and inner -")


class Lane(Struct, frozen=True, cache_hash=True):
    """The emulated link between the hub and one site, with the site's name.

    `outbound` (hub to site) acts on the site port's egress, `inbound` on the hub port's. `ports` None means a
    virtual lane: veth pairs into namespaces. `line_rate_bps` is the ports' speed, used to size netem's limit
    where no rate is set. `off` keeps the settings but disables them: see `in_effect`. `host` is the SSH destination of
    the machine behind the site port, `address` the site's address in the subnet; None takes the next one in order. A
    packet belongs to the first of the `flows` that it matches.
    """

    name: str
    outbound: Impairment = UNIMPAIRED
    inbound: Impairment = UNIMPAIRED
    ports: Ports | None = None
    mtu: int = 1500
    line_rate_bps: int = LINE_RATE_BPS
    off: bool = False
    host: str | None = None
    address: IPv4Address | None = None
    flows: tuple[Flow, ...] = ()

    def __post_init__(self) -> None:
        self._check_flows()
        if not re.fullmatch(NAME_PATTERN, self.name):
            raise ValueError(f"lane name {self.name!r} is not a host name label (a-z, 0-9 and inner -)")
        if not LEAST_MTU <= self.mtu <= MOST_MTU:
            raise ValueError(f"mtu {self.mtu} is not within {LEAST_MTU}..{MOST_MTU}")
        if not 8 <= self.line_rate_bps <= MOST_RATE_BPS:
            text = f"line rate {format_rate(self.line_rate_bps)} is not within 8 bit/s..{format_rate(MOST_RATE_BPS)}"
            raise ValueError(text)
        self._check_bottlenecks()
        if self.host is not None:
            check_destination(self.host)
            if self.ports is None:
                raise ValueError(
                    "a virtual lane cannot have a host, because its host is a namespace: add ports, or remove host"
                )

    def _check_bottlenecks(self) -> None:
        ways = [("", self.outbound, self.inbound), *((f"flow {f.name}, ", f.outbound, f.inbound) for f in self.flows)]
        for where, outbound, inbound in ways:
            for side, impairment in (("outbound", outbound), ("inbound", inbound)):
                try:
                    bottleneck.check(impairment, self.mtu, outbound.delay_ns + inbound.delay_ns)
                except ValueError as error:
                    raise ValueError(f"{where}{side}: {error}") from None

    def _check_flows(self) -> None:
        names = [flow.name for flow in self.flows]
        if len(names) > MOST_FLOWS or len(set(names)) < len(names):
            raise ValueError(f"a lane has at most {MOST_FLOWS} flows, each with its own name")

    def of_flow(self, flow: Flow) -> Lane:
        """The lane for that flow's packets."""
        return replace(self, outbound=flow.outbound, inbound=flow.inbound, flows=())

    @property
    def ways(self) -> tuple[Lane, ...]:
        """The lane for packets of no flow, then for each flow's packets."""
        if not self.flows:
            return (self,)
        return (replace(self, flows=()), *(self.of_flow(flow) for flow in self.flows))

    @property
    def per_packet(self) -> bool:
        """Whether packets must pass singly in any direction or flow (see `Impairment.per_packet`)."""
        return any(way.outbound.per_packet or way.inbound.per_packet for way in self.ways)

    @property
    def named_ports(self) -> tuple[str, ...]:
        """The names of its interfaces, (hub, site); none for a virtual lane."""
        return (self.ports.hub, self.ports.site) if self.ports else ()

    @property
    def vlan(self) -> int | None:
        """The lane's 802.1Q tag on shared ports; None when its ports are its own."""
        return self.ports.vlan if self.ports else None

    @property
    def rtt_ns(self) -> int:
        """The requested round-trip time: the sum of both directions' delays."""
        return self.outbound.delay_ns + self.inbound.delay_ns

    @property
    def in_effect(self) -> Lane:
        """The lane in effect: itself, or, when it is off, only its bottlenecks."""
        if not self.off:
            return self
        flows = (replace(f, outbound=f.outbound.bottleneck, inbound=f.inbound.bottleneck) for f in self.flows)
        return replace(self, outbound=self.outbound.bottleneck, inbound=self.inbound.bottleneck, flows=tuple(flows))

    def with_rtt(self, rtt_ns: int) -> Lane:
        """The same lane with this RTT, split evenly; jitter above the new delay is an error."""
        outbound, inbound = split_rtt(rtt_ns)
        return replace(
            self,
            outbound=replace(self.outbound, delay_ns=outbound),
            inbound=replace(self.inbound, delay_ns=inbound),
        )


class LaneEnd(Struct, frozen=True):
    """One end of a lane: the host there by its name in the topology, and its address in the subnet.

    `destination` is the host's SSH destination; None where the topology names none. `port` is the interface that the
    lane has at this end, as the user named it; None on a virtual lane, whose hosts are namespaces of Longhaul's.
    """

    host: str
    address: IPv4Interface
    destination: str | None = None
    port: str | None = None

    @property
    def is_namespace(self) -> bool:
        """Whether the host is a namespace on this machine."""
        return self.port is None


class LaneEnds(NamedTuple):
    """Both ends of a lane. Outbound goes from the hub's to the site's."""

    hub: LaneEnd
    site: LaneEnd

    def other(self, host: str) -> LaneEnd:
        """The end opposite to this host's. Raises KeyError for a host at neither end."""
        if host not in (self.hub.host, self.site.host):
            raise KeyError(host)
        return self.site if host == self.hub.host else self.hub


def check_destination(host: str) -> None:
    """Raises ValueError unless `host` is an SSH destination, which no program can misread as an option."""
    if not re.fullmatch(DESTINATION_PATTERN, host):
        raise ValueError(f"host {host!r} is not an SSH destination: use user@name, or a Host of ~/.ssh/config")


def split_rtt(rtt_ns: int) -> tuple[int, int]:
    """An RTT as (outbound, inbound) delays in ns that add up to it exactly; the odd nanosecond goes outbound."""
    return rtt_ns - rtt_ns // 2, rtt_ns // 2


def split_delays(rtt_ns: int | None, outbound_ns: int | None, inbound_ns: int | None) -> tuple[int, int]:
    """(outbound, inbound) delays in ns from the given delays and RTT; an RTT alone is split evenly.

    With an RTT, a direction that is not given is the rest of it; without an RTT it is 0. Raises ValueError when the
    three contradict each other.
    """
    if rtt_ns is None:
        return outbound_ns or 0, inbound_ns or 0
    if outbound_ns is None and inbound_ns is None:
        return split_rtt(rtt_ns)
    outbound = rtt_ns - (inbound_ns or 0) if outbound_ns is None else outbound_ns
    inbound = rtt_ns - outbound if inbound_ns is None else inbound_ns
    if outbound < 0 or inbound < 0:
        raise ValueError(f"one direction's delay is above the RTT of {format_duration(rtt_ns)}: use a smaller delay")
    if outbound + inbound != rtt_ns:
        both, rtt = format_duration(outbound + inbound), format_duration(rtt_ns)
        raise ValueError(f"the delays add up to {both}, but rtt is {rtt}: remove one of the three")
    return outbound, inbound


def shared_ports(lanes: tuple[Lane, ...]) -> list[str]:
    """The ports that several lanes name: only lanes of different VLANs may share a port."""
    claims = Counter((name, lane.vlan) for lane in lanes for name in lane.named_ports)
    users = Counter(name for lane in lanes for name in lane.named_ports)
    return sorted({name for (name, vlan), count in claims.items() if count > 1 or (vlan is None and users[name] > 1)})


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur several times, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


class Topology(Struct, frozen=True):
    """A star: the hub, its lanes in the user's order, and one flat subnet for the hosts of virtual lanes.

    The hub has the subnet's first address, the lanes' sites the following ones in order. `seed` drives every
    random impairment; each direction of each lane derives its own from it. `on_drift` is what the daemon does when
    somebody else changes a lane: one of ON_DRIFT. `hub_host` is the SSH destination of the hub's machine.
    `datapath`: one of DATAPATHS; `on_failure`: one of ON_FAILURE, for lanes that the engine serves. `schedule` changes
    the lanes over time.
    """

    name: str
    hub: str
    lanes: tuple[Lane, ...] = ()
    subnet: IPv4Network = SUBNET
    seed: int = 1
    on_drift: str = "report"
    hub_host: str | None = None
    datapath: str = "auto"
    on_failure: str = "cut"
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        for word, known in ((self.datapath, DATAPATHS), (self.on_failure, ON_FAILURE)):
            if word not in known:
                raise ValueError(f"{word!r} is not one of {', '.join(known)}")
        self._check_count()
        names = [self.hub, *self.sites]
        if twice := repeated(names):
            raise ValueError(f"named twice: {', '.join(twice)}")
        if shared := shared_ports(self.lanes):
            raise ValueError(f"port used twice: {', '.join(shared)}")
        if len(names) > self.subnet.num_addresses - 2:
            raise ValueError(f"subnet {self.subnet} has too few addresses for {len(names)} hosts")
        if self.on_drift not in ON_DRIFT:
            raise ValueError(f"on_drift {self.on_drift!r} is not one of {', '.join(ON_DRIFT)}")
        if not re.fullmatch(NAME_PATTERN, self.hub):
            raise ValueError(f"hub name {self.hub!r} is not a host name label (a-z, 0-9 and inner -)")
        if unknown := self._unknown_lanes():
            raise ValueError(no_such("lane", unknown[0], self.sites))
        self._check_hosts()
        device_names.check(self.hub, self.kinds)

    def _check_count(self) -> None:
        if len(self.lanes) > MOST_LANES:
            raise ValueError(f"too many lanes: {len(self.lanes)}, {MOST_LANES} at most")
        if (count := len(self.virtual_lanes)) > MOST_VIRTUAL_LANES:
            raise ValueError(
                f"too many lanes without ports: {count}, the hub's switch has {MOST_VIRTUAL_LANES} at most"
            )

    def _unknown_lanes(self) -> list[str]:
        """The lanes that the schedule names and the topology does not have."""
        named = {name for track in self.schedule.tracks for name in track.lanes} if self.schedule else set()
        return sorted(named - set(self.sites))

    def _check_hosts(self) -> None:
        if self.hub_host is not None:
            check_destination(self.hub_host)
            if virtual := [lane.name for lane in self.virtual_lanes]:
                raise ValueError(
                    f"hub_host is given, but {', '.join(virtual)} has no ports: a virtual lane's hub is a namespace"
                )
        if not any(lane.address for lane in self.lanes):
            return  # they are the subnet's first, one after the other
        addresses = [self.subnet[1], *(lane.address or self.subnet[i] for i, lane in enumerate(self.lanes, 2))]
        if shared := repeated(map(str, addresses)):
            raise ValueError(f"address used twice: {', '.join(shared)}")
        if no_host := [str(ip) for ip in (self.subnet[0], self.subnet[-1]) if ip in addresses]:
            raise ValueError(f"address {', '.join(no_host)} is no host's: it is the subnet's own, or its broadcast")
        if outside := [str(ip) for ip in addresses if ip not in self.subnet]:
            raise ValueError(f"address {', '.join(outside)} is not in the subnet {self.subnet}")

    @property
    def sites(self) -> tuple[str, ...]:
        """The remote data centres, in order."""
        return tuple(lane.name for lane in self.lanes)

    @property
    def kinds(self) -> tuple[device_names.LaneKind, ...]:
        """The lanes as far as the names of what is made for them depend on them."""
        return tuple((lane.name, lane.vlan is not None, lane.named_ports) for lane in self.lanes)

    @property
    def virtual_lanes(self) -> tuple[Lane, ...]:
        """The lanes without ports of the machine: Longhaul creates veth pairs into the hosts' namespaces."""
        return tuple(lane for lane in self.lanes if lane.ports is None)

    def lane(self, name: str) -> Lane:
        """The lane to one site. Raises KeyError."""
        for lane in self.lanes:
            if lane.name == name:
                return lane
        raise KeyError(name)

    def ends(self, name: str) -> LaneEnds:
        """Both ends of the lane to one site. Raises KeyError."""
        lane = self.lane(name)
        hub_port, site_port = lane.named_ports or (None, None)
        return LaneEnds(
            LaneEnd(self.hub, self.address(self.hub), self.hub_host, hub_port),
            LaneEnd(lane.name, self.address(lane.name), lane.host, site_port),
        )

    @property
    def all_ends(self) -> tuple[LaneEnd, ...]:
        """The ends of every lane in order: the hub's, then the site's."""
        return tuple(end for name in self.sites for end in self.ends(name))

    def with_lane(self, changed: Lane) -> Topology:
        """The same topology with the lane of that name replaced."""
        return replace(self, lanes=tuple(changed if lane.name == changed.name else lane for lane in self.lanes))

    def alone(self, lane: Lane) -> Topology:
        """The star with this one lane, whose site keeps its address; no schedule changes it."""
        own = replace(lane, address=self.address(lane.name).ip)
        return replace(self, lanes=(own,), schedule=None)

    @property
    def in_effect(self) -> Topology:
        """The topology in effect: lanes that are off have no impairments but their bottlenecks."""
        return replace(self, lanes=tuple(lane.in_effect for lane in self.lanes))

    def address(self, host: str) -> IPv4Interface:
        """The address of the hub or a site in the flat subnet. Raises ValueError on an unknown name."""
        index = [self.hub, *self.sites].index(host)
        if host != self.hub and (own := self.lane(host).address):
            return IPv4Interface(f"{own}/{self.subnet.prefixlen}")
        return IPv4Interface(f"{self.subnet[index + 1]}/{self.subnet.prefixlen}")

    def rtt_ns(self, one: str, other: str) -> int:
        """The requested RTT between two hosts: the sum of the lanes between them (site to site: by way of the hub)."""
        if one == other:
            return 0
        return sum(self.lane(name).rtt_ns for name in (one, other) if name != self.hub)
