"""prio and flower on the wire: the bands of a port's flows and the filters that find their packets, both ways.

Layouts: include/uapi/linux/pkt_sched.h (tc_prio_qopt), pkt_cls.h (TCA_FLOWER_*). All numbers of flower's keys are in
network order, but for the VLAN's.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any

from pyroute2.netlink import nla

from emulator.model.flow_match import IPV4, IPV6, VLAN, WITH_PORTS, Filter, Network

_NAMES = (
    "UNSPEC", "CLASSID", "INDEV", "ACT", "KEY_ETH_DST", "KEY_ETH_DST_MASK", "KEY_ETH_SRC", "KEY_ETH_SRC_MASK",
    "KEY_ETH_TYPE", "KEY_IP_PROTO", "KEY_IPV4_SRC", "KEY_IPV4_SRC_MASK", "KEY_IPV4_DST", "KEY_IPV4_DST_MASK",
    "KEY_IPV6_SRC", "KEY_IPV6_SRC_MASK", "KEY_IPV6_DST", "KEY_IPV6_DST_MASK", "KEY_TCP_SRC", "KEY_TCP_DST",
    "KEY_UDP_SRC", "KEY_UDP_DST", "FLAGS", "KEY_VLAN_ID", "KEY_VLAN_PRIO", "KEY_VLAN_ETH_TYPE",
    *(f"PAD{i}" for i in range(26, 35)),
    "KEY_TCP_SRC_MASK", "KEY_TCP_DST_MASK", "KEY_UDP_SRC_MASK", "KEY_UDP_DST_MASK",
    *(f"PAD{i}" for i in range(39, 73)),
    "KEY_IP_TOS", "KEY_IP_TOS_MASK",
)  # fmt: skip
ECN_BITS, DSCP_MASK = 2, b"\xfc"
ANY_PROTOCOL = 0x0003
"""ETH_P_ALL."""

_PORT_NAMES = {6: "TCP", 17: "UDP"}


class PrioOptions(nla):  # type: ignore[misc]
    """struct tc_prio_qopt: the number of bands, and the band of each priority of a packet."""

    fields = (("bands", "i"), ("priomap", "16s"))


class FlowerOptions(nla):  # type: ignore[misc]
    """Flower's attributes as bytes; the class in the machine's order."""

    nla_map = tuple(
        (f"TCA_FLOWER_{name}", "none" if name == "UNSPEC" else "uint32" if name == "CLASSID" else "cdata")
        for name in _NAMES
    )


OPTIONS = {"prio": PrioOptions, "flower": FlowerOptions}
"""By the kernel's name."""


def encode_bands(bands: int) -> dict[str, Any]:
    """All packets that no filter sends elsewhere take the first band."""
    return {"bands": bands, "priomap": bytes(16)}


def encode_filter(one: Filter, class_id: int) -> dict[str, Any]:
    """The message body: matching packets go to the class."""
    keys: dict[str, bytes] = {"KEY_ETH_TYPE": _be16(_outer(one))} if _outer(one) != ANY_PROTOCOL else {}
    if one.vlan is not None:
        keys["KEY_VLAN_ID"] = one.vlan.to_bytes(2, sys.byteorder)
        if one.ethertype is not None:
            keys["KEY_VLAN_ETH_TYPE"] = _be16(one.ethertype)
    if one.protocol is not None:
        keys["KEY_IP_PROTO"] = bytes([one.protocol])
    for end, network in (("SRC", one.source), ("DST", one.target)):
        if network is not None:
            keys[f"KEY_IPV{network.version}_{end}"] = network.network_address.packed
            keys[f"KEY_IPV{network.version}_{end}_MASK"] = network.netmask.packed
    for end, port in (("SRC", one.source_port), ("DST", one.target_port)):
        if port is not None and one.protocol in WITH_PORTS:
            name = f"KEY_{_PORT_NAMES[one.protocol]}_{end}"
            keys |= {name: _be16(port), f"{name}_MASK": b"\xff\xff"}
    if one.dscp is not None:
        keys |= {"KEY_IP_TOS": bytes([one.dscp << ECN_BITS]), "KEY_IP_TOS_MASK": DSCP_MASK}
    attrs: list[list[object]] = [["TCA_FLOWER_CLASSID", class_id]]
    return {"attrs": attrs + [[f"TCA_FLOWER_{name}", value] for name, value in keys.items()]}


def filter_protocol(one: Filter) -> int:
    """The protocol that the kernel files the filter under, in network order."""
    return int.from_bytes(_be16(_outer(one)), "little")


def decode_filter(options: Any) -> tuple[int, Filter]:
    """A dumped filter and its class."""
    said = {name.removeprefix("TCA_FLOWER_"): value for name, value in options["attrs"]}
    class_id = int(said.pop("CLASSID", 0))
    keys = {name: bytes(value) for name, value in said.items() if name.startswith("KEY_")}
    outer = _number(keys, "KEY_ETH_TYPE")
    ethertype = _number(keys, "KEY_VLAN_ETH_TYPE") if outer == VLAN else outer
    tos = _number(keys, "KEY_IP_TOS") if keys.get("KEY_IP_TOS_MASK", DSCP_MASK) == DSCP_MASK else None
    return class_id, Filter(
        ethertype if ethertype in (IPV4, IPV6) else None,
        int.from_bytes(keys["KEY_VLAN_ID"], sys.byteorder) if "KEY_VLAN_ID" in keys else None,
        _network(keys, "SRC"),
        _network(keys, "DST"),
        _number(keys, "KEY_IP_PROTO"),
        _port(keys, "SRC"),
        _port(keys, "DST"),
        None if tos is None else tos >> ECN_BITS,
    )


def _outer(one: Filter) -> int:
    return VLAN if one.vlan is not None else one.ethertype or ANY_PROTOCOL


def _be16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def _number(keys: Mapping[str, bytes], name: str) -> int | None:
    return int.from_bytes(keys[name], "big") if name in keys else None


def _network(keys: Mapping[str, bytes], end: str) -> Network | None:
    for version in (4, 6):
        if address := keys.get(f"KEY_IPV{version}_{end}"):
            bits = int.from_bytes(keys[f"KEY_IPV{version}_{end}_MASK"], "big").bit_count()
            return ip_network((address, bits), strict=False)
    return None


def _port(keys: Mapping[str, bytes], end: str) -> int | None:
    found = (_number(keys, f"KEY_{name}_{end}") for name in _PORT_NAMES.values())
    return next((port for port in found if port is not None), None)
