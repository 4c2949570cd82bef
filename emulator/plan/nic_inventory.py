"""A machine's interfaces: which can be ports of lanes, why the others cannot, and a topology from the free ones.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from emulator.errors import InputError, Mistake
from emulator.model.topology import LINE_RATE_BPS, Lane, Ports, Topology
from emulator.plan.desired_state import resolve
from emulator.plan.preconditions import port_reasons
from emulator.plan.state import Nic, State

PORT_KINDS = ("", "veth", "dummy", "tun")
"""Kinds of interfaces that can be a lane's port; "" is hardware."""


class NicRow(Struct, frozen=True):
    """One interface: its properties, its owner ("" nobody), and why it cannot be used (empty: it can)."""

    name: str
    nic: Nic
    up: bool
    kind: str
    owner: str
    reasons: tuple[str, ...]


def nic_rows(have: State, sessions: Collection[str] = ()) -> list[NicRow]:
    """Every interface that Longhaul did not create, in natural order: eth2 before eth10."""
    named = sorted(have.machine.nics.items(), key=_counting)
    return [_row(name, nic, have, sessions) for name, nic in named if name != "lo"]


def _row(name: str, nic: Nic, have: State, sessions: Collection[str]) -> NicRow:
    if name in have.ports:
        port = have.ports[name]
        users = [port.bridge] if port.bridge else [v.name for v in have.vlans.values() if v.trunk == name]
        return NicRow(name, nic, port.up, "", "longhaul", (f"is a port already, of {', '.join(users) or 'nothing'}",))
    link = have.machine.links[name]
    reasons = list(port_reasons(name, have, sessions))
    if link.kind not in PORT_KINDS:
        reasons.append(f"is of the kind {link.kind}, which cannot be a port")
    owner = link.master or ("the system" if link.addresses or link.default_route else "")
    return NicRow(name, nic, link.up, link.kind, owner, tuple(reasons))


def port_names(names: Sequence[str], have: State) -> list[str]:
    """The interfaces behind these names of any kind. Raises InputError when a name means none, or several."""
    found = {name: resolve(name, have) for name in names}
    wrong = {name: ports for name, ports in found.items() if len(ports) != 1}
    if wrong:
        said = {name: " and ".join(ports) or "not there" for name, ports in wrong.items()}
        raise InputError([Mistake("", f"port {name}", f"is {text}") for name, text in said.items()])
    return [ports[0] for ports in found.values()]


def _counting(item: tuple[str, Nic]) -> tuple[tuple[str, int], ...]:
    return tuple((word, int(digits or 0)) for word, digits in re.findall(r"(\D*)(\d*)", item[0]))


def free_pairs(rows: Sequence[NicRow]) -> list[tuple[NicRow, NicRow]]:
    """The free ports in pairs, in order; each pair has one speed and MTU."""
    left = [row for row in rows if not row.reasons]
    pairs = []
    while left:
        one = left.pop(0)
        for other in left:
            if (one.nic.speed_mbps, one.nic.mtu) == (other.nic.speed_mbps, other.nic.mtu):
                pairs.append((one, other))
                left.remove(other)
                break
    return pairs


def propose(
    name: str, hub: str, rtts_ns: Sequence[tuple[str, int]], pairs: Sequence[tuple[NicRow, NicRow]], by: str
) -> Topology:
    """A star over the pairs of ports, one lane for each site and its RTT. Raises ValueError when pairs are too few.

    `by` selects how ports are named: "name", "mac" or "pci", where a port has one.
    """
    if len(rtts_ns) > len(pairs):
        raise ValueError(f"{len(rtts_ns)} lanes need {2 * len(rtts_ns)} free ports; this machine has {2 * len(pairs)}")
    named = zip(rtts_ns, pairs, strict=False)
    return Topology(name, hub, tuple(over(Lane(site).with_rtt(rtt_ns), pair, by) for (site, rtt_ns), pair in named))


def over(lane: Lane, pair: tuple[NicRow, NicRow], by: str) -> Lane:
    """The lane over the hub's and the site's port, with their speed and MTU. Raises ValueError."""
    one, other = pair
    line = one.nic.speed_mbps * 10**6 if one.nic.speed_mbps else LINE_RATE_BPS
    ports = Ports(called(one, by), called(other, by))
    return replace(lane, ports=ports, mtu=one.nic.mtu, line_rate_bps=line)


def called(row: NicRow, by: str) -> str:
    """What a topology calls the port: by "name", "mac" or "pci", where the port has one."""
    nic = row.nic
    return {"mac": nic.permanent_mac or nic.mac, "pci": nic.bus}.get(by) or row.name
