"""A kernel in memory that refuses what the real kernel refuses, for tests and dry runs."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial, singledispatchmethod

from msgspec.structs import replace

from emulator.errors import KernelError
from emulator.kernel import fake_qdiscs
from emulator.kernel.protocol import QueueCounters
from emulator.model.device_names import PREFIX
from emulator.plan import engine_ops, ops, qdisc_ops
from emulator.plan.engine_lane import DEAD, Wire
from emulator.plan.ops import Op
from emulator.plan.state import GSO_SEGMENTS, LRO, NEWEST, Bridge, Link, Machine, Nic, Origin, Port, State, Veth, Vlan

NEW_PORT = Port(None, learning=True, forward_mask=0, up=False, ipv6=True, arp=True)


@dataclass
class FakeKernel:
    """It starts with the interfaces `links`, which Longhaul does not own. `fail_at` makes one operation (from 0) fail.

    `nics` describes their hardware; an interface without an entry has one TX queue and no offloads.
    """

    links: dict[str, Link] = field(default_factory=dict)
    nics: dict[str, Nic] = field(default_factory=dict)
    nf_call: tuple[int, int, int] | None = None
    memory_bytes: int = 2**40
    fail_at: int | None = None
    log: list[Op] = field(default_factory=list)
    namespaces: set[str] = field(default_factory=set)
    bridges: dict[str, Bridge] = field(default_factory=dict)
    veths: dict[str, Veth] = field(default_factory=dict)
    vlans: dict[str, Vlan] = field(default_factory=dict)
    ports: dict[str, Port] = field(default_factory=dict)
    marked: dict[str, Link] = field(default_factory=dict)
    has_netem: bool = True
    version: tuple[int, int] = NEWEST
    wires: dict[str, Wire] = field(default_factory=dict)
    remnants: set[str] = field(default_factory=set)

    def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def observe(self) -> State:
        """As `NetlinkKernel` does: a veth's end is a port once it joined a bridge, has a queue or is silent."""
        spaces, nics = frozenset(self.namespaces), dict(self.nics)
        machine = Machine(dict(self.links), self.memory_bytes, self.version, self.nf_call, spaces, nics, self.has_netem)
        ports = {n: p for n, p in self.ports.items() if p.altname or n in self.vlans or self._ends(n)}
        nf_call = self.nf_call if self.bridges else None
        bridges, veths, vlans, wires = dict(self.bridges), dict(self.veths), dict(self.vlans), dict(self.wires)
        return State(spaces, bridges, veths, ports, nf_call, machine, vlans, wires, frozenset(self.remnants))

    def ports_of(self, names: frozenset[str]) -> State:
        """These ports alone, without those that have flows."""
        seen = self.observe()
        found = {n: p for n, p in seen.ports.items() if n in names and not (p.egress and p.egress.bands)}
        return State(ports=found, machine=replace(seen.machine, links={}))

    def counters(self) -> dict[str, QueueCounters]:
        """All zero: no packet travels in this kernel."""
        none = QueueCounters(0, 0, 0, 0, 0, 0)
        wired = {port: none for wire in self.wires.values() for port in (wire.hub, wire.site)}
        queued = {n: replace(none, flows=(none,) * len(p.egress.bands)) for n, p in self.ports.items() if p.egress}
        return wired | queued

    def apply(self, op: Op) -> None:
        """Apply one operation, or refuse all of it. Raises KernelError."""
        if self.fail_at == len(self.log):
            self.fail_at = None
            raise KernelError(op, errno.EIO, "injected")
        self._do(op)
        self.log.append(op)

    def prepare(self, op: Op) -> Callable[[], None]:
        """`apply`, for later: there is nothing to prepare."""
        return partial(self.apply, op)

    def _ends(self, name: str) -> bool:
        return any(name in (v.name, v.peer) for v in self.veths.values() if v.namespace is None or v.name == name)

    def _need(self, op: Op, there: bool, code: int) -> None:
        if not there:
            raise KernelError(op, code, errno.errorcode[code])

    def _port(self, op: Op, name: str) -> Port:
        self._need(op, name in self.ports or name in self.links, errno.ENODEV)
        return self.ports.setdefault(name, replace(NEW_PORT, up=name in self.links and self.links[name].up))

    @singledispatchmethod
    def _do(self, op: Op) -> None:
        raise TypeError(f"no such operation: {op!r}")

    @_do.register
    def _(self, op: ops.AddNamespace) -> None:
        self._need(op, op.name not in self.namespaces | self.remnants, errno.EEXIST)
        self.namespaces.add(op.name)

    @_do.register
    def _(self, op: ops.DelNamespace) -> None:
        self._need(op, op.name in self.namespaces | self.remnants, errno.ENOENT)
        self.namespaces.discard(op.name)
        self.remnants.discard(op.name)
        self._drop(v.name for v in list(self.veths.values()) if v.namespace == op.name)

    @_do.register
    def _(self, op: ops.AddBridge) -> None:
        self._need(op, op.name not in self.bridges, errno.EEXIST)
        self._need(op, op.name.startswith(PREFIX), errno.EINVAL)
        self.bridges[op.name] = Bridge(up=False, forgets=True, ipv6=True, arp=True)

    @_do.register
    def _(self, op: ops.WireBridge) -> None:
        self._need(op, op.name in self.bridges, errno.ENODEV)
        self.bridges[op.name] = Bridge(up=op.up, nf_origin=op.nf_origin)

    @_do.register
    def _(self, op: ops.DelBridge) -> None:
        self._need(op, op.name in self.bridges, errno.ENODEV)
        del self.bridges[op.name]
        for name, port in self.ports.items():
            if port.bridge == op.name:
                self.ports[name] = replace(port, bridge=None, learning=True, forward_mask=0)

    @_do.register
    def _(self, op: ops.SetNfCall) -> None:
        self._need(op, self.nf_call is not None, errno.ENOENT)
        self.nf_call = op.values

    @_do.register
    def _(self, op: ops.AddVeth) -> None:
        v = op.veth
        taken = {e for w in self.veths.values() for e in (w.name, w.peer if w.namespace is None else w.name)}
        self._need(op, v.name not in taken | self.links.keys(), errno.EEXIST)
        self._need(op, v.namespace is None or v.namespace in self.namespaces, errno.ENOENT)
        self.veths[v.name] = replace(v, address=None, peer_up=v.namespace is None, segments=GSO_SEGMENTS)
        self.ports |= {n: NEW_PORT for n in (v.name, v.peer) if n == v.name or v.namespace is None}

    @_do.register
    def _(self, op: ops.DelVeth) -> None:
        self._need(op, op.name in self.veths, errno.ENODEV)
        self._drop([op.name])

    def _drop(self, names: Iterable[str]) -> None:
        for veth in [self.veths.pop(name) for name in names]:
            for end in (veth.name, veth.peer):
                self._unplug(end)

    def _unplug(self, name: str) -> None:
        """An engine ends when one of its ports is gone."""
        self.ports.pop(name, None)
        self.wires = {n: w for n, w in self.wires.items() if name not in (w.hub, w.site)}

    @_do.register
    def _(self, op: ops.HostUp) -> None:
        self._need(op, op.veth.name in self.veths, errno.ENODEV)
        self.veths[op.veth.name] = replace(self.veths[op.veth.name], address=op.veth.address, peer_up=True)

    @_do.register
    def _(self, op: ops.SetMtu) -> None:
        self._need(op, op.veth.name in self.veths, errno.ENODEV)
        self.veths[op.veth.name] = replace(self.veths[op.veth.name], mtu=op.veth.mtu)

    @_do.register
    def _(self, op: ops.SetSegments) -> None:
        self._need(op, op.veth.name in self.veths, errno.ENODEV)
        self.veths[op.veth.name] = replace(self.veths[op.veth.name], segments=op.veth.segments)

    @_do.register
    def _(self, op: ops.MarkPort) -> None:
        link = self.links.pop(op.port, None)
        self._need(op, link is not None, errno.ENODEV)
        assert link is not None
        origin = Origin.decode(op.altname)
        quiet = not link.ipv6 and link.addrgen == 1
        port = replace(NEW_PORT, up=link.up, ipv6=not quiet, arp=link.arp, altname=op.altname, origin=origin)
        self.ports[op.port] = replace(port, offloads=self._nic(op.port).offloads)
        self.marked[op.port] = link

    @_do.register
    def _(self, op: ops.RestorePort) -> None:
        self._need(op, op.port in self.ports, errno.ENODEV)
        del self.ports[op.port]
        self.links[op.port] = self.marked.pop(op.port)
        if op.port in self.nics:
            self.nics[op.port] = replace(self.nics[op.port], offloads=op.origin.offloads)

    def _nic(self, name: str) -> Nic:
        return self.nics.get(name, Nic())

    @_do.register
    def _(self, op: ops.QuietPort) -> None:
        self.ports[op.port] = replace(self._port(op, op.port), ipv6=False, arp=False)

    @_do.register
    def _(self, op: ops.SetOffloads) -> None:
        port = self._port(op, op.port)
        self._need(op, port.bridge is None or not op.offloads & LRO, errno.EOPNOTSUPP)
        self._offload(op.port, port, op.offloads)

    def _offload(self, name: str, port: Port, offloads: frozenset[str]) -> None:
        """A driver switches only the offloads that its interface had at first."""
        if port.origin:
            offloads &= port.origin.offloads
            if name in self.nics:
                self.nics[name] = replace(self.nics[name], offloads=offloads)
            port = replace(port, offloads=offloads)
        self.ports[name] = port

    @_do.register
    def _(self, op: ops.AddVlan) -> None:
        taken = op.vlan.name in self.links.keys() | self.ports.keys()
        self._need(op, not taken, errno.EEXIST)
        self._need(op, op.vlan.trunk in self.ports.keys() | self.links.keys(), errno.ENODEV)
        same = [v for v in self.vlans.values() if (v.trunk, v.tag) == (op.vlan.trunk, op.vlan.tag)]
        self._need(op, not same, errno.EEXIST)
        self.vlans[op.vlan.name], self.ports[op.vlan.name] = op.vlan, NEW_PORT

    @_do.register
    def _(self, op: ops.DelVlan) -> None:
        self._need(op, op.name in self.vlans, errno.ENODEV)
        del self.vlans[op.name]
        self._unplug(op.name)

    @_do.register
    def _(self, op: ops.UpPort) -> None:
        if trunk := self.vlans.get(op.port):
            self._need(op, self.ports[trunk.trunk].up, errno.ENETDOWN)
        self.ports[op.port] = replace(self._port(op, op.port), up=True)

    @_do.register
    def _(self, op: ops.Enslave) -> None:
        port = self._port(op, op.port)
        self._need(op, op.bridge in self.bridges, errno.ENODEV)
        self._need(op, port.bridge in (None, op.bridge), errno.EBUSY)
        self._offload(op.port, replace(port, bridge=op.bridge), (port.offloads or frozenset()) - LRO)

    @_do.register
    def _(self, op: ops.Release) -> None:
        self.ports[op.port] = replace(self._port(op, op.port), bridge=None, learning=True, forward_mask=0)

    @_do.register
    def _(self, op: ops.SetPort) -> None:
        port = self._port(op, op.port)
        self._need(op, port.bridge is not None, errno.EOPNOTSUPP)
        self._need(op, not op.forward_mask & 2, errno.EINVAL)
        self.ports[op.port] = replace(port, learning=op.learning, forward_mask=op.forward_mask)

    @_do.register
    def _(self, op: qdisc_ops.QueueOp) -> None:
        port = self._port(op, op.port)
        egress = fake_qdiscs.changed(op, port.egress, self._nic(op.port).tx_queues)
        self.ports[op.port] = replace(port, egress=egress)

    @_do.register
    def _(self, op: engine_ops.StartWire) -> None:
        self._need(op, op.bridge in self.bridges and op.bridge not in self.wires, errno.EADDRINUSE)
        self._need(op, {op.wire.hub, op.wire.site} <= self.ports.keys(), errno.ENODEV)
        self.wires[op.bridge] = op.wire

    @_do.register
    def _(self, op: engine_ops.SetWire) -> None:
        now = self.wires.get(op.bridge, DEAD)
        self._need(op, now.running, errno.ECONNREFUSED)
        like = {"outbound": op.wire.outbound, "inbound": op.wire.inbound, "memory_bytes": op.wire.memory_bytes}
        self.wires[op.bridge] = replace(now, **like)

    @_do.register
    def _(self, op: engine_ops.StopWire) -> None:
        self._need(op, op.bridge in self.wires, errno.ENOENT)
        del self.wires[op.bridge]

    @_do.register
    def _(self, op: qdisc_ops.Drain) -> None:
        self._port(op, op.port)

    @_do.register
    def _(self, op: qdisc_ops.Together) -> None:
        for one in op.ops:
            self._do(one)
