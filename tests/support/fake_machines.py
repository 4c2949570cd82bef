"""Machines on paper: an appliance with six ports, and machines described in YAML for the golden refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from emulator.kernel.fake import FakeKernel
from emulator.plan.state import NEWEST, Link, Nic

LINK = Link(mtu=1500, up=True, ipv6=True, addrgen=0)
NIC = Nic(speed_mbps=10_000, driver="ixgbe", numa_node=0, offloads=frozenset({"rx-gro"}))


def appliance_box() -> FakeKernel:
    """eth0 to the world, eth1 to eth6 free; eth5 and eth6 have 4 TX queues, eth1 merges all it can, eth3 is down."""
    links = {f"eth{n}": LINK for n in range(7)}
    links["eth0"] = replace(LINK, addresses=("192.0.2.1", "2001:db8::1"), default_route=True)
    links["eth3"] = replace(LINK, up=False, arp=False, ipv6=False, addrgen=1)
    nics = {name: replace(NIC, mac=f"02:00:00:00:00:0{name[-1]}", bus=f"0000:0{name[-1]}:00.0") for name in links}
    nics["eth1"] = replace(nics["eth1"], altnames=("uplink",), offloads=frozenset({"rx-gro", "rx-gro-hw", "rx-lro"}))
    for name in ("eth5", "eth6"):
        nics[name] = replace(nics[name], tx_queues=4, rx_queues=4)
    return FakeKernel(links, nics)


def described(path: Path) -> tuple[FakeKernel, tuple[str, ...]]:
    """The machine of a YAML file, and the addresses of sessions on it. Unsaid: as those of `appliance_box`."""
    tree: dict[str, Any] = yaml.safe_load(path.read_text())
    links, nics = {}, {}
    for name, said in tree["ports"].items():
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in (said or {}).items()}
        own = {key: value for key, value in values.items() if key in Nic.__struct_fields__ and key != "mtu"}
        links[name] = replace(LINK, **{key: value for key, value in values.items() if key not in own})
        nics[name] = replace(NIC, **own)
    version = tuple(tree.get("version", NEWEST))
    kernel = FakeKernel(links, nics, memory_bytes=tree.get("memory_bytes", 2**40), version=version)
    return kernel, tuple(tree.get("sessions", ()))
