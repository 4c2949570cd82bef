"""The names of what Longhaul makes for a topology: namespaces, bridges, veths, VLANs. No two are alike. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache

LaneKind = tuple[str, bool, tuple[str, ...]]
"""A lane as its names depend on it: its own, whether it shares its ports by VLANs, and the interfaces that were named
for it, which a virtual lane has none of."""

PREFIX = "lh"
"""Every bridge, veth and namespace of ours has this prefix; an appliance's ports have an altname instead."""

SWITCH = "lh-switch"
"""The hub's switch, which joins the virtual lanes."""

IFNAMSIZ = 15
"""The longest name of an interface, in bytes (without the closing NUL)."""


def namespace_of(host: str) -> str:
    """The namespace of a virtual host."""
    return f"{PREFIX}-{host}"


def interface_name(role: str, host: str) -> str:
    """An interface's name, at most 15 bytes: role "" is the lane's bridge, "h" and "s" its hub and site port, "x"
    the host's port on the hub's switch, "vh" and "vs" a VLAN lane's ports. A longer name ends in a digest, and so does
    one that would be the hub's switch."""
    name = f"{PREFIX}{role}-{host}"
    if len(name) <= IFNAMSIZ and name != SWITCH:
        return name
    return name[: IFNAMSIZ - 5] + "-" + hashlib.sha256(host.encode()).hexdigest()[:4]


@lru_cache(64)  # a schedule builds a topology at every instant
def check(hub: str, lanes: tuple[LaneKind, ...]) -> None:
    """Raise ValueError where two things would have one name."""
    owner: dict[str, str] = {}
    for name, what in made(hub, lanes):
        if (other := owner.setdefault(name, what)) != what:
            raise ValueError(f"names {other} and {what} would both be {name} in the kernel: rename one of them")
    for lane, _, ports in lanes:
        if taken := [port for port in ports if port in owner]:
            raise ValueError(f"port {taken[0]} of lane {lane} is the name of an interface that Longhaul makes itself")


def made(hub: str, lanes: tuple[LaneKind, ...]) -> Iterator[tuple[str, str]]:
    """Every interface that Longhaul makes in its own namespace: its name, and whose it is."""
    if any(not ports for _, _, ports in lanes):
        yield SWITCH, "the hub's switch"
        yield interface_name("x", hub), hub
    for lane, shared, ports in lanes:
        roles = ("", "vh", "vs") if shared else ("",) if ports else ("", "h", "s", "x")
        yield from ((interface_name(role, lane), lane) for role in roles)
