"""What we own in the kernel, and its names there. Pure values; the operations that change them are in `ops`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from emulator.plan.engine_lane import Wire
from emulator.plan.qdisc_values import Egress

PREFIX = "lh"
"""Every bridge, veth and namespace of ours begins with it; an appliance's ports carry an altname instead."""

SWITCH = "lh-switch"
"""The hub's switch, which joins the virtual lanes."""

HOST_PORT = "eth0"
"""What a host's only interface is called inside its namespace."""

GROUP_FORWARD_MASK = 0xFFFD
"""Link-local frames a port passes on: LLDP, LACP, STP... all but MAC pause, which a bridge may never forward."""

GSO_SEGMENTS = 65535
"""The kernel's default for gso_max_segs; 1 makes every packet an skb of its own."""

IFNAMSIZ = 15
"""The longest name of an interface, in bytes (without the closing NUL)."""


def namespace_of(host: str) -> str:
    """The namespace of a virtual host."""
    return f"{PREFIX}-{host}"


def interface_name(role: str, host: str) -> str:
    """An interface's name, at most 15 bytes: role "" is the lane's bridge, "h" and "s" its hub and site port, "x"
    the host's port on the hub's switch, "vh" and "vs" a VLAN lane's ports. A longer name ends in a digest."""
    name = f"{PREFIX}{role}-{host}"
    if len(name) <= IFNAMSIZ:
        return name
    return name[: IFNAMSIZ - 5] + "-" + hashlib.sha256(host.encode()).hexdigest()[:4]


def altname_of(lane: str, side: str, origin: Origin) -> str:
    """The mark on an appliance's port; it also carries what the port was like before."""
    return f"longhaul.{lane}.{side}.{origin.encode()}"


def trunk_altname_of(port: str, origin: Origin) -> str:
    """The mark on a port that VLAN lanes share."""
    return f"longhaul.{port}.trunk.{origin.encode()}"


MERGING = ("rx-gro", "rx-gro-hw", "rx-lro")
"""The offloads that merge received packets into super-frames, by the kernel's names; their places are Origin's bits."""

LRO = frozenset({"rx-lro"})
"""What a bridge switches off by itself on every port (dev_disable_lro), and does not give back."""


@dataclass(frozen=True)
class Origin:
    """What a port was like before it was ours, to be returned exactly; `offloads` are those of MERGING."""

    up: bool
    ipv6: bool
    addrgen: int
    arp: bool = True
    offloads: frozenset[str] = frozenset()

    def encode(self) -> str:
        bits = sum(1 << place for place, name in enumerate(MERGING) if name in self.offloads)
        return f"u{self.up:d}v{self.ipv6:d}g{self.addrgen}a{self.arp:d}o{bits}"

    @classmethod
    def decode(cls, altname: str) -> Origin:
        """The inverse of `encode`, from the end of an altname. Raises ValueError."""
        code = re.fullmatch(r"u([01])v([01])g(\d+)a([01])o([0-7])", altname.rsplit(".", 1)[-1])
        if code is None:
            raise ValueError(f"{altname} is not a mark of Longhaul's")
        up, ipv6, addrgen, arp, bits = (int(digits) for digits in code.groups())
        offloads = frozenset(name for place, name in enumerate(MERGING) if bits >> place & 1)
        return cls(bool(up), bool(ipv6), addrgen, bool(arp), offloads)


@dataclass(frozen=True)
class Bridge:
    """A bridge of ours. `up`, `ipv6` (any of its own addresses), `arp`, `stp`, `snooping` as observed; wished: a wire.
    `forgets` who was silent for a while: wished not to.

    `nf_origin` is what br_netfilter's three sysctls were before we came (None where it is not loaded).
    """

    up: bool = True
    stp: bool = False
    snooping: bool = False
    forgets: bool = False
    ipv6: bool = False
    arp: bool = False
    nf_origin: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Veth:
    """A veth pair of ours: the near end `name`, the far end `peer`, here or in `namespace`.

    `address` (CIDR) and `peer_up` describe the far end in a host; `segments` is the far end's gso_max_segs.
    """

    name: str
    peer: str
    namespace: str | None = None
    address: str | None = None
    mtu: int = 1500
    segments: int = GSO_SEGMENTS
    peer_up: bool = True


@dataclass(frozen=True)
class Vlan:
    """A sub-interface of ours that carries one 802.1Q tag of the port `trunk`."""

    name: str
    trunk: str
    tag: int
    mtu: int = 1500


@dataclass(frozen=True)
class Port:
    """An interface that is, or is about to be, a port of one of our bridges; or a trunk, which joins none.

    `origin` None: one of our own veths or VLANs, which needs no giving back. `altname` carries the mark of any
    other, and `offloads` which of MERGING are on there (None: not looked at, for nothing is received there).
    """

    bridge: str | None
    learning: bool = False
    forward_mask: int = GROUP_FORWARD_MASK
    up: bool = True
    ipv6: bool = False
    arp: bool = False
    egress: Egress | None = None
    altname: str | None = None
    origin: Origin | None = None
    offloads: frozenset[str] | None = None


@dataclass(frozen=True)
class Link:
    """An interface that is not ours, with all that may be a reason to leave it alone.

    `qdisc` is the kind of a queue that somebody installed (the kernel's own has no handle), `lower` the interface
    that a VLAN or the like stands on, `addresses` IPv4 and global IPv6.
    """

    mtu: int
    up: bool
    ipv6: bool
    addrgen: int
    arp: bool = True
    kind: str = ""
    master: str = ""
    lower: str = ""
    qdisc: str = ""
    addresses: tuple[str, ...] = ()
    default_route: bool = False


@dataclass(frozen=True)
class Nic:
    """What an interface is made of, whoever owns it: names it answers to, hardware, offloads of MERGING that are on.

    `bus` is its PCI (or other bus) address, "" for a virtual one; `speed_mbps` None where the driver knows none;
    `numa_node` -1 where the machine has but one.
    """

    mac: str = ""
    permanent_mac: str = ""
    bus: str = ""
    altnames: tuple[str, ...] = ()
    driver: str = ""
    speed_mbps: int | None = None
    carrier: bool = True
    numa_node: int = -1
    rx_queues: int = 1
    tx_queues: int = 1
    mtu: int = 1500
    offloads: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Machine:
    """What the plan must know of the machine besides what we own. Never compared: it is not ours."""

    links: Mapping[str, Link] = field(default_factory=dict)
    memory_bytes: int = 2**63
    has_seed: bool = True
    nf_call: tuple[int, int, int] | None = None
    namespaces: frozenset[str] = frozenset()
    nics: Mapping[str, Nic] = field(default_factory=dict)
    has_netem: bool = True


@dataclass(frozen=True)
class State:
    """All that is ours in the kernel. Two equal states are the same kernel as far as we are concerned.

    `nf_call` are br_netfilter's sysctls (iptables, ip6tables, arptables) while any bridge of ours stands, else None.
    `wires` are the lanes that the wire engine serves, by their bridge, which is down.
    """

    namespaces: frozenset[str] = frozenset()
    bridges: Mapping[str, Bridge] = field(default_factory=dict)
    veths: Mapping[str, Veth] = field(default_factory=dict)
    ports: Mapping[str, Port] = field(default_factory=dict)
    nf_call: tuple[int, int, int] | None = None
    machine: Machine = field(default=Machine(), compare=False)
    vlans: Mapping[str, Vlan] = field(default_factory=dict)
    wires: Mapping[str, Wire] = field(default_factory=dict)

    def egress(self, port: str) -> Egress | None:
        """What acts on all that leaves a port, netem's or the engine's."""
        for wire in self.wires.values():
            if wire.running and port in (wire.hub, wire.site):
                return wire.outbound if port == wire.site else wire.inbound
        return self.ports[port].egress if port in self.ports else None
