"""Observes a few ports alone, as `observe` does, without reading the whole machine."""

from __future__ import annotations

import struct
from typing import Any

from pyroute2.netlink import NLM_F_ACK, NLM_F_ECHO
from pyroute2.netlink.rtnl import RTM_GETQDISC, RTM_NEWQDISC
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from emulator.kernel import link_messages
from emulator.kernel.capabilities import memory_bytes, version
from emulator.kernel.nic_facts import mark
from emulator.kernel.observe import OUR_VETH, port_of
from emulator.kernel.qdisc_observe import NETEM_CLASS, ROOT, SHAPER_CLASS, egresses_of
from emulator.kernel.rtnl_socket import HEADER, RtnlSocket
from emulator.plan.state import Machine, State

TCMSG = struct.Struct("=4xiII4x")
"""struct tcmsg of a query: interface, handle, parent."""


def ports_of(rtnl: RtnlSocket, names: frozenset[str]) -> State:
    """These interfaces as ports, as far as they exist and are Longhaul's; without the offloads of NICs.

    It omits ports with flows: they have more queues than this reads.
    """
    found = filter(None, (link_messages.link(rtnl, name) for name in sorted(names)))
    links = [link for link in found if OUR_VETH.match(link.name) or mark(link)]
    masters = sorted({link.master for link in links if link.master})
    bridges = filter(None, (link_messages.link(rtnl, index) for index in masters))
    bridge_names = {bridge.index: bridge.name for bridge in bridges}
    # By parent: the answer to a query by handle does not name the parent (sch_api.c, tc_get_qdisc).
    wanted = [(link.index, parent) for link in links for parent in (ROOT, NETEM_CLASS, SHAPER_CLASS)]
    egresses, kinds = egresses_of(filter(None, (_qdisc(rtnl, *place) for place in wanted)), {})
    seen = [link for link in links if kinds.get(link.index) != "prio"]
    ports = {link.name: port_of(link, bridge_names, egresses) for link in seen}
    return State(ports=ports, machine=Machine(memory_bytes=memory_bytes(), kernel=version()))


def _qdisc(rtnl: RtnlSocket, index: int, parent: int) -> Any:
    """The qdisc at that place; None where there is none."""
    try:
        # ECHO: without it the kernel sends the qdisc to listeners, but not to the sender (rtnetlink_send). ACK: of
        # queues that are not shown, such as noqueue, it sends nothing else (tc_qdisc_dump_ignore).
        body = rtnl.query(RTM_GETQDISC, TCMSG.pack(index, 0, parent), NLM_F_ECHO | NLM_F_ACK)
    except OSError:  # the place is below a qdisc that has no places
        return None
    if body is None:
        return None
    found = tcmsg(HEADER.pack(HEADER.size + len(body), RTM_NEWQDISC, 0, 0, 0) + body)
    found.decode()
    return found
