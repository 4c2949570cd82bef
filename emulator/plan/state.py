"""What Longhaul owns in the kernel, and its names there. Pure values; `ops` holds the operations that change them."""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Mapping
from ipaddress import IPv4Interface
from operator import attrgetter

from msgspec import Struct, field

from emulator.plan.engine_lane import Wire
from emulator.plan.qdisc_values import Egress

HOST_PORT = "eth0"
"""The name of a host's only interface inside its namespace."""

GROUP_FORWARD_MASK = 0xFFFD
"""Link-local frames that a port forwards: LLDP, LACP, STP... all but MAC pause, which no bridge may forward."""

GSO_SEGMENTS = 65535
"""The kernel's default for gso_max_segs; 1 makes every packet a separate skb."""


def mac_of(address: str) -> str:
    """The MAC address of the host with this IPv4 address (CIDR): locally administered, and the same for ever.

    A host whose interface is created again, or whose address another host takes over, is still found at the MAC
    address that the other hosts remember. It holds a CRC of the IPv4 address, so that the addresses of two hosts in one
    subnet differ in four bits or more: a frame that an impairment corrupts (`corrupt`) must not become another host's
    frame, because the hub's switch would deliver or learn it there.
    """
    packed = IPv4Interface(address).packed
    return ":".join(f"{byte:02x}" for byte in (0x02, *packed[1:], *crc_hqx(packed, 0).to_bytes(2, "big")))


def altname_of(lane: str, side: str, origin: Origin) -> str:
    """The mark on an appliance's port; it also encodes the port's former state."""
    return f"longhaul.{lane}.{side}.{origin.encode()}"


def trunk_altname_of(port: str, origin: Origin) -> str:
    """The mark on a port that VLAN lanes share."""
    return f"longhaul.{port}.trunk.{origin.encode()}"


MERGING = ("rx-gro", "rx-gro-hw", "rx-lro")
"""The offloads that merge received packets into super-frames, by the kernel's names; their places are Origin's bits."""

LRO = frozenset({"rx-lro"})
"""What a bridge switches off on every port (dev_disable_lro) and does not restore."""


class Origin(Struct, frozen=True):
    """A port's state before Longhaul used it, to be restored exactly; `offloads` are those of MERGING."""

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
            raise ValueError(f"{altname} is not a mark of Longhaul")
        up, ipv6, addrgen, arp, bits = (int(digits) for digits in code.groups())
        offloads = frozenset(name for place, name in enumerate(MERGING) if bits >> place & 1)
        return cls(bool(up), bool(ipv6), addrgen, bool(arp), offloads)


class Bridge(Struct, frozen=True):
    """A bridge of ours. `up`, `ipv6` (any address of its own), `arp`, `stp`, `snooping` as observed; the goal is a
    wire. `forgets` hosts that are silent for a while: the goal is that it does not.

    `nf_origin` holds br_netfilter's three sysctls from before Longhaul (None where it is not loaded).
    """

    up: bool = True
    stp: bool = False
    snooping: bool = False
    forgets: bool = False
    ipv6: bool = False
    arp: bool = False
    nf_origin: tuple[int, int, int] | None = None


class Veth(Struct, frozen=True):
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


class Vlan(Struct, frozen=True):
    """A sub-interface of ours with one 802.1Q tag on the port `trunk`."""

    name: str
    trunk: str
    tag: int
    mtu: int = 1500


class Port(Struct, frozen=True):
    """An interface that is, or will be, a port of one of our bridges; or a trunk, which joins none.

    `origin` None: one of our own veths or VLANs, which needs no restoring. `altname` holds the mark of any other
    port, and `offloads` which of MERGING are on there (None: not observed, as no packets are received there).
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


class Link(Struct, frozen=True):
    """A foreign interface, with every reason to leave it alone.

    `qdisc` is the kind of a queue that somebody installed (the kernel's own has no handle), `lower` the interface below
    a VLAN or the like, `addresses` IPv4 and global IPv6.
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


class Nic(Struct, frozen=True):
    """An interface's properties, whoever owns it: its names, its hardware, the offloads of MERGING that are on.

    `bus` is its PCI (or other bus) address, "" for a virtual one; `speed_mbps` None where the driver knows none;
    `numa_node` -1 on a machine with a single node.
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


SEED_SINCE = (6, 6)
NEWEST = (99, 0)
"""A version of Linux above all that there are."""


class Machine(Struct, frozen=True):
    """What the plan must know of the machine besides what we own. Never compared: it is not ours.

    `kernel` is the version of Linux, the first two numbers of it.
    """

    links: Mapping[str, Link] = field(default_factory=dict)
    memory_bytes: int = 2**63
    kernel: tuple[int, int] = NEWEST
    nf_call: tuple[int, int, int] | None = None
    namespaces: frozenset[str] = frozenset()
    nics: Mapping[str, Nic] = field(default_factory=dict)
    has_netem: bool = True

    @property
    def has_seed(self) -> bool:
        """Whether this kernel's netem takes a seed."""
        return self.kernel >= SEED_SINCE


class State(Struct, frozen=True):
    """Everything in the kernel that is ours. Two equal states are the same kernel as far as we are concerned.

    `nf_call` holds br_netfilter's sysctls (iptables, ip6tables, arptables) while any bridge of ours exists, else None.
    `wires` are the lanes that the wire engine serves, by their bridge, which is down. `remnants` are names of hosts
    that are no namespaces: a process was killed while it created or deleted them.
    """

    namespaces: frozenset[str] = frozenset()
    bridges: Mapping[str, Bridge] = field(default_factory=dict)
    veths: Mapping[str, Veth] = field(default_factory=dict)
    ports: Mapping[str, Port] = field(default_factory=dict)
    nf_call: tuple[int, int, int] | None = None
    machine: Machine = Machine()
    vlans: Mapping[str, Vlan] = field(default_factory=dict)
    wires: Mapping[str, Wire] = field(default_factory=dict)
    remnants: frozenset[str] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and _owned(self) == _owned(other)

    __hash__ = None  # type: ignore[assignment]  # it holds mappings

    def egress(self, port: str) -> Egress | None:
        """What acts on all packets that leave a port: netem's settings or the engine's."""
        for wire in self.wires.values():
            if wire.running and port in (wire.hub, wire.site):
                return wire.outbound if port == wire.site else wire.inbound
        return self.ports[port].egress if port in self.ports else None


_owned = attrgetter(*(name for name in State.__struct_fields__ if name != "machine"))
"""What two states are compared by."""
