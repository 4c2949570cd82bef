"""The real kernel, over netlink."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, singledispatch, singledispatchmethod
from pathlib import Path
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError

from emulator.errors import KernelError, MissingError, VerifyError
from emulator.kernel import (  # fmt: skip
    capabilities,
    codec_netem,
    engine_client,
    ethtool,
    link_messages,
    netns,
    prepared_request,
    qdisc_messages,
)
from emulator.kernel.observe import observe
from emulator.kernel.observe_ports import ports_of
from emulator.kernel.protocol import QueueCounters
from emulator.kernel.qdisc_counters import counters, netem_backlog
from emulator.kernel.qdisc_messages import MessageOp
from emulator.kernel.rtnl_socket import RtnlSocket
from emulator.model.device_names import SWITCH
from emulator.plan import engine_ops, ops, qdisc_ops
from emulator.plan.ops import Op
from emulator.plan.state import MERGING, State, Veth, mac_of

ADDRGEN_NONE = 1
IFF_NOARP = 1 << 7
IN_THE_LAB = "try it in the lab, which needs neither: longhaul lab run -- longhaul ..."

NEW_CONTAINER = (
    "create the container with {}; with --network host, with --security-opt systempaths=unconfined "
    "(podman: unmask=/proc/sys)"
)
FROM_THE_HOST = (
    "from the host, `nsenter --net -t PID sysctl ...` sets it, with the PID of the container's first process"
)


class NetlinkKernel:
    """Netlink sockets in the namespace of the lanes. One thread at a time may use them."""

    def __init__(self) -> None:
        codec_netem.register()
        self._requests, self._rtnl = prepared_request.Requests(), RtnlSocket()
        self._iproute: Any = None

    @property
    def _ip(self) -> Any:
        """pyroute2's socket, for changes of links. It is slow to import, and most commands change none."""
        if self._iproute is None:
            from pyroute2.iproute.linux import IPRoute

            self._iproute = IPRoute()
        return self._iproute

    def close(self) -> None:
        """Close the sockets."""
        if self._iproute is not None:
            self._iproute.close()
        self._requests.close()
        self._rtnl.close()

    def observe(self) -> State:
        """Read back all that Longhaul owns, and what the planner must know of the rest."""
        return observe(self._rtnl, engine_client.observe())

    def ports_of(self, names: frozenset[str]) -> State:
        """Read back these ports alone, however many other interfaces there are."""
        return ports_of(self._rtnl, names)

    def counters(self) -> dict[str, QueueCounters]:
        """The queues' counters, by port."""
        return counters(self._rtnl) | engine_client.counters()

    def apply(self, op: Op) -> None:
        """Apply one operation. Raises KernelError, or MissingError without netem or without the rights."""
        with _explaining(op):
            self._do(op)

    def prepare(self, op: Op) -> Callable[[], None]:
        """Prepare a change of queues; the returned function sends it."""
        if not isinstance(op, MessageOp):
            return partial(self.apply, op)
        with _explaining(op):
            messages = qdisc_messages.messages(op, cache(self._index))
            encoded = prepared_request.encode(messages)

        def send() -> None:
            with _explaining(op):
                self._requests.send(encoded, len(messages))

        return send

    def _index(self, name: str) -> int:
        found = link_messages.link(self._rtnl, name)
        if not found:
            raise OSError(errno.ENODEV, name)
        return found.index

    def _link(self, name: str, **attributes: Any) -> None:
        self._ip.link("set", index=self._index(name), **attributes)

    @singledispatchmethod
    def _do(self, op: Op) -> None:
        raise TypeError(f"no such operation: {op!r}")

    @_do.register
    def _(self, op: ops.AddNamespace) -> None:
        netns.create(op.name)

    @_do.register
    def _(self, op: ops.DelNamespace) -> None:
        netns.delete(op.name)

    @_do.register
    def _(self, op: ops.AddBridge) -> None:
        self._ip.link("add", ifname=op.name, kind="bridge", br_stp_state=0, br_mcast_snooping=0)

    @_do.register
    def _(self, op: ops.WireBridge) -> None:
        _quiet(op.name)
        settings = {"br_stp_state": 0, "br_mcast_snooping": 0, "br_ageing_time": ops.NEVER_CS}
        self._ip.link("set", index=self._index(op.name), kind="bridge", **settings)
        self._link(op.name, ifalias=ops.alias_of(op.nf_origin))
        self._addrgen(op.name, ADDRGEN_NONE)
        self._arp(op.name, on=False)
        self._link(op.name, state="up" if op.up else "down")

    @_do.register
    def _(self, op: ops.DelBridge) -> None:
        self._ip.link("del", index=self._index(op.name))

    @_do.register
    def _(self, op: ops.SetNfCall) -> None:
        for name, value in zip(ops.NF_CALL, op.values, strict=True):
            Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}").write_text(str(value), "utf-8")

    @_do.register
    def _(self, op: ops.AddVeth) -> None:
        v = op.veth
        peer: dict[str, Any] = {"ifname": v.peer, "mtu": v.mtu} | ({"address": mac_of(v.address)} if v.address else {})
        if v.namespace is None:
            self._ip.link("add", ifname=v.name, kind="veth", mtu=v.mtu, peer=peer)
            return
        there = os.open(netns.RUN / v.namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._ip.link("add", ifname=v.name, kind="veth", mtu=v.mtu, peer=peer | {"net_ns_fd": there})
        finally:
            os.close(there)

    @_do.register
    def _(self, op: ops.DelVeth) -> None:
        self._ip.link("del", index=self._index(op.name))
        self._silence(SWITCH)

    @_do.register
    def _(self, op: ops.HostUp) -> None:
        v = op.veth
        assert v.namespace and v.address
        address, prefix = v.address.split("/")
        with _socket_in(v.namespace) as ip:
            index = ip.link_lookup(ifname=v.peer)[0]
            _quiet(v.peer)
            ethtool.set_offloads(v.peer, dict.fromkeys(ethtool.TUNNEL_SEGMENTATION, False))
            ip.addr("replace", index=index, address=address, prefixlen=int(prefix))
            ip.link("set", index=1, state="up")
            ip.link("set", index=index, state="up")

    @_do.register
    def _(self, op: ops.SetMtu) -> None:
        self._link(op.veth.name, mtu=op.veth.mtu)
        self._far_end(op.veth, mtu=op.veth.mtu)
        for name in (op.veth.name, SWITCH):
            self._silence(name)

    @_do.register
    def _(self, op: ops.SetSegments) -> None:
        self._far_end(op.veth, gso_max_segs=op.veth.segments)

    def _far_end(self, veth: Veth, **attributes: Any) -> None:
        """Set attributes of a pair's far end, here or in its host."""
        if veth.namespace is None:
            self._link(veth.peer, **attributes)
            return
        with _socket_in(veth.namespace) as ip:
            had_ipv6 = _ipv6_switch(veth.peer).exists()
            ip.link("set", index=ip.link_lookup(ifname=veth.peer)[0], **attributes)
            if not had_ipv6:
                _quiet(veth.peer)

    @_do.register
    def _(self, op: ops.MarkPort) -> None:
        self._ip.link("property_add", index=self._index(op.port), altname=op.altname)

    @_do.register
    def _(self, op: ops.RestorePort) -> None:
        self._offload(op.port, op.origin.offloads)
        self._link(op.port, state="up" if op.origin.up else "down")
        self._arp(op.port, on=op.origin.arp)
        self._addrgen(op.port, op.origin.addrgen)
        _sysctl_ipv6(op.port, disabled=not op.origin.ipv6)
        self._ip.link("property_del", index=self._index(op.port), altname=op.altname)

    @_do.register
    def _(self, op: ops.QuietPort) -> None:
        _quiet(op.port)
        self._addrgen(op.port, ADDRGEN_NONE)
        self._arp(op.port, on=False)

    def _arp(self, name: str, *, on: bool) -> None:
        """Whether it sends and answers ARP: without an address of its own it answers for all of the machine's."""
        self._link(name, flags=0 if on else IFF_NOARP, change=IFF_NOARP)

    @_do.register
    def _(self, op: ops.SetOffloads) -> None:
        self._offload(op.port, op.offloads)

    def _offload(self, name: str, on: frozenset[str]) -> None:
        ethtool.set_offloads(name, {feature: feature in on for feature in MERGING})

    @_do.register
    def _(self, op: ops.AddVlan) -> None:
        v = op.vlan
        self._ip.link("add", ifname=v.name, kind="vlan", link=self._index(v.trunk), vlan_id=v.tag, mtu=v.mtu)

    @_do.register
    def _(self, op: ops.DelVlan) -> None:
        self._ip.link("del", index=self._index(op.name))

    def _addrgen(self, name: str, mode: int) -> None:
        inet6 = {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", mode)]}
        try:
            self._link(name, IFLA_AF_SPEC={"attrs": [("AF_INET6", inet6)]})
        except NetlinkError as error:
            # With an MTU below 1280 an interface has no IPv6 at all (addrconf_notify).
            if error.code != errno.EAFNOSUPPORT:
                raise

    @_do.register
    def _(self, op: ops.Enslave) -> None:
        self._link(op.port, master=self._index(op.bridge))
        self._silence(op.bridge)

    def _silence(self, name: str) -> None:
        """Silence IPv6 on an interface again: it comes back, loud, when the MTU rises to 1280.

        A bridge has the smallest MTU of its ports.
        """
        path = _ipv6_switch(name)
        if path.exists() and path.read_text("utf-8").strip() == "0":
            _quiet(name)
            self._addrgen(name, ADDRGEN_NONE)

    @_do.register
    def _(self, op: ops.Release) -> None:
        self._link(op.port, master=0)

    @_do.register
    def _(self, op: ops.SetPort) -> None:
        # link("set", kind="bridge_slave") is accepted and changes nothing (pyroute2 0.9.7).
        values = [("IFLA_BRPORT_LEARNING", int(op.learning)), ("IFLA_BRPORT_GROUP_FWD_MASK", op.forward_mask)]
        info = [("IFLA_INFO_SLAVE_KIND", "bridge"), ("IFLA_INFO_SLAVE_DATA", {"attrs": values})]
        self._link(op.port, IFLA_LINKINFO={"attrs": info})

    @_do.register
    def _(self, op: ops.UpPort) -> None:
        self._link(op.port, state="up")

    @_do.register
    def _(self, op: MessageOp) -> None:
        self.prepare(op)()

    @_do.register
    def _(self, op: engine_ops.StartWire) -> None:
        engine_client.start(op)

    @_do.register
    def _(self, op: engine_ops.SetWire) -> None:
        engine_client.change(op)

    @_do.register
    def _(self, op: engine_ops.StopWire) -> None:
        engine_client.stop(op)

    @_do.register
    def _(self, op: qdisc_ops.Drain) -> None:
        index, end = self._index(op.port), time.monotonic_ns() + op.within_ns
        while (queued := netem_backlog(self._rtnl, index, op.band)) > op.packets:
            if time.monotonic_ns() > end:
                raise VerifyError(f"{op.port}: {queued} packets still queued, {op.packets} expected after the change")
            time.sleep(0.001)


@contextmanager
def _socket_in(namespace: str) -> Iterator[Any]:
    """A socket inside a host's namespace, with the thread there; closed at once, or it kept the namespace alive."""
    from pyroute2.iproute.linux import IPRoute

    with netns.inside(namespace), IPRoute() as ip:
        yield ip


def _quiet(name: str) -> None:
    _sysctl_ipv6(name, disabled=True)


def _ipv6_switch(name: str) -> Path:
    """The file that turns off IPv6 on an interface of the thread's namespace.

    It does not exist below an MTU of 1280, nor on a kernel without IPv6; such an interface sends none.
    """
    return Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")


def _sysctl_ipv6(name: str, *, disabled: bool) -> None:
    """Write what differs: a container whose /proc/sys is read-only may have been started with the right values."""
    path, value = _ipv6_switch(name), str(int(disabled))
    if path.exists() and path.read_text("utf-8").strip() != value:
        path.write_text(value, "utf-8")


@contextmanager
def _explaining(op: Op) -> Iterator[None]:
    """Convert every refusal of the kernel to one of Longhaul's errors."""
    try:
        yield
    except NetlinkError as error:
        raise _explained(op, error.code) from error
    except OSError as error:
        raise _explained(op, error.errno or errno.EIO) from error


def _explained(op: Op, code: int) -> Exception:
    if code in (errno.EPERM, errno.EACCES):
        return MissingError(f"not permitted: {op}\nrun as root (CAP_NET_ADMIN, CAP_SYS_ADMIN), or {IN_THE_LAB}")
    if code == errno.EROFS:
        options = capabilities.sysctl_options()
        cure = NEW_CONTAINER.format(options) if options else FROM_THE_HOST
        return MissingError(f"/proc/sys is read-only here: {op}\n{cure}")
    if code == errno.ENOENT and (missing := _modules(op)):
        return MissingError(f"this kernel lacks {missing}: {op}\nload the module, or {IN_THE_LAB}")
    return KernelError(op, code, os.strerror(code))


@singledispatch
def _modules(_: Op) -> str:
    """Which modules of the kernel an operation needs, as text; empty when it needs none."""
    return ""


@_modules.register
def _(_: qdisc_ops.SetNetem | qdisc_ops.SetShaper | qdisc_ops.SetQueue) -> str:
    return "netem, tbf or the queue"


@_modules.register
def _(_: qdisc_ops.AddBands | qdisc_ops.AddFilters) -> str:
    return "prio or flower"
