"""The operations that change what we own; each prints as the ip, tc or sysctl commands that would do the same.

`qdisc_ops` holds the operations on queues, `engine_ops` those on the wire engine.
"""

from __future__ import annotations

from msgspec import Struct

from emulator.plan.engine_ops import WireOp
from emulator.plan.qdisc_ops import Drain, QueueOp, Together
from emulator.plan.state import MERGING, Origin, Veth, Vlan, mac_of

NF_CALL = ("iptables", "ip6tables", "arptables")
"""br_netfilter's three switches, net.bridge.bridge-nf-call-*, in the order of State.nf_call."""


ADDRGEN = {0: "eui64", 1: "none", 2: "stable_secret", 3: "random"}
"""How an interface makes its IPv6 link-local address (IN6_ADDR_GEN_MODE_*), in iproute2's words."""


class AddNamespace(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"ip netns add {self.name}"


class DelNamespace(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"ip netns del {self.name}"


NEVER_CS = 2**31 - 1
"""A bridge's ageing time in 1/100 s: 248 days. It would flood packets for a forgotten site to all lanes."""


class AddBridge(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"ip link add {self.name} type bridge stp_state 0 mcast_snooping 0"


class WireBridge(Struct, frozen=True):
    """Silence a bridge, save br_netfilter's settings in its alias, and bring it up; or down, for an engine."""

    name: str
    nf_origin: tuple[int, int, int] | None = None
    up: bool = True

    def __str__(self) -> str:
        alias = f" alias {alias_of(self.nf_origin)}"
        return (
            f"sysctl -q net.ipv6.conf.{self.name}.disable_ipv6=1; "
            f"ip link set {self.name}{alias} arp off addrgenmode none type bridge stp_state 0 mcast_snooping 0 "
            f"ageing_time {NEVER_CS}; "
            f"ip link set {self.name} {'up' if self.up else 'down'}"
        )


class DelBridge(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"ip link del {self.name}"


class SetNfCall(Struct, frozen=True):
    values: tuple[int, int, int]

    def __str__(self) -> str:
        pairs = zip(NF_CALL, self.values, strict=True)
        return "sysctl -q " + " ".join(f"net.bridge.bridge-nf-call-{name}={value}" for name, value in pairs)


class AddVeth(Struct, frozen=True):
    """Create the pair alone, a host's end with its MAC address; `HostUp` gives it its IP address."""

    veth: Veth

    def __str__(self) -> str:
        v = self.veth
        where = f" netns {v.namespace}" if v.namespace else ""
        mac = f" address {mac_of(v.address)}" if v.address else ""
        return f"ip link add {v.name} mtu {v.mtu} type veth peer name {v.peer} mtu {v.mtu}{mac}{where}"


class DelVeth(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"ip link del {self.name}"


class HostUp(Struct, frozen=True):
    """Give a host its address and bring its interface and loopback up; it sends no super-frames of tunnels."""

    veth: Veth

    def __str__(self) -> str:
        ip, dev = f"ip -n {self.veth.namespace}", self.veth.peer
        return f"{ip} addr replace {self.veth.address} dev {dev}; {ip} link set lo up; {ip} link set {dev} up"


class SetMtu(Struct, frozen=True):
    """Set the MTU of both ends."""

    veth: Veth

    def __str__(self) -> str:
        v = self.veth
        far = f"ip -n {v.namespace}" if v.namespace else "ip"
        return f"ip link set {v.name} mtu {v.mtu}; {far} link set {v.peer} mtu {v.mtu}"


class SetSegments(Struct, frozen=True):
    """Set how many packets one super-frame from the far end may hold."""

    veth: Veth

    def __str__(self) -> str:
        ip = f"ip -n {self.veth.namespace}" if self.veth.namespace else "ip"
        return f"{ip} link set {self.veth.peer} gso_max_segs {self.veth.segments}"


class MarkPort(Struct, frozen=True):
    port: str
    altname: str

    def __str__(self) -> str:
        return f"ip link property add dev {self.port} altname {self.altname}"


class QuietPort(Struct, frozen=True):
    """Stop the machine itself from sending through this port."""

    port: str

    def __str__(self) -> str:
        return f"sysctl -q net.ipv6.conf.{self.port}.disable_ipv6=1; ip link set {self.port} arp off addrgenmode none"


class SetOffloads(Struct, frozen=True):
    """Set which of MERGING are on: super-frames, or single packets only."""

    port: str
    offloads: frozenset[str]

    def __str__(self) -> str:
        return f"ethtool -K {self.port} {_offload_words(self.offloads)}"


class AddVlan(Struct, frozen=True):
    vlan: Vlan

    def __str__(self) -> str:
        v = self.vlan
        return f"ip link add link {v.trunk} name {v.name} mtu {v.mtu} type vlan id {v.tag}"


class DelVlan(Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return f"ip link del {self.name}"


class Enslave(Struct, frozen=True):
    port: str
    bridge: str

    def __str__(self) -> str:
        return f"ip link set {self.port} master {self.bridge}"


class SetPort(Struct, frozen=True):
    port: str
    learning: bool
    forward_mask: int

    def __str__(self) -> str:
        learning = "on" if self.learning else "off"
        return f"ip link set {self.port} type bridge_slave learning {learning} group_fwd_mask {self.forward_mask:#06x}"


class UpPort(Struct, frozen=True):
    port: str

    def __str__(self) -> str:
        return f"ip link set {self.port} up"


class Release(Struct, frozen=True):
    port: str

    def __str__(self) -> str:
        return f"ip link set {self.port} nomaster"


class RestorePort(Struct, frozen=True):
    """Restore an appliance's port as it was; its mark goes last."""

    port: str
    altname: str
    origin: Origin

    def __str__(self) -> str:
        up, arp = "up" if self.origin.up else "down", "on" if self.origin.arp else "off"
        return (
            f"ethtool -K {self.port} {_offload_words(self.origin.offloads)}; "
            f"ip link set {self.port} {up} arp {arp} addrgenmode {ADDRGEN.get(self.origin.addrgen, 'eui64')}; "
            f"sysctl -q net.ipv6.conf.{self.port}.disable_ipv6={int(not self.origin.ipv6)}; "
            f"ip link property del dev {self.port} altname {self.altname}"
        )


Op = (
    AddNamespace | DelNamespace | AddBridge | WireBridge | DelBridge | SetNfCall | AddVeth | DelVeth | HostUp
    | SetMtu | SetSegments | MarkPort | QuietPort | SetOffloads | AddVlan | DelVlan | Enslave | SetPort | UpPort
    | Release | RestorePort | QueueOp | Drain | Together | WireOp
)  # fmt: skip


class Step(Struct, frozen=True):
    """One operation of a plan and its reason."""

    op: Op
    why: str


def _offload_words(offloads: frozenset[str]) -> str:
    """The offloads as arguments of ethtool -K."""
    return " ".join(f"{name} {'on' if name in offloads else 'off'}" for name in MERGING)


def alias_of(nf_origin: tuple[int, int, int] | None) -> str:
    """The alias of our bridges: our mark, and br_netfilter's former settings."""
    return "longhaul" + ("" if nf_origin is None else "-nf" + "".join(map(str, nf_origin)))


def nf_origin_of(alias: str) -> tuple[int, int, int] | None:
    """The inverse of `alias_of`; a foreign alias means nothing."""
    digits = alias.removeprefix("longhaul-nf")
    if digits == alias or len(digits) != len(NF_CALL) or not digits.isdigit():
        return None
    return int(digits[0]), int(digits[1]), int(digits[2])
