"""Observes a few ports alone, as `observe` does, without reading the whole machine."""

from __future__ import annotations

from emulator.kernel import link_messages, qdisc_read
from emulator.kernel.capabilities import memory_bytes, version
from emulator.kernel.nic_facts import mark
from emulator.kernel.observe import OUR_VETH, port_of
from emulator.kernel.qdisc_observe import NETEM_CLASS, ROOT, SHAPER_CLASS, egresses_of
from emulator.kernel.rtnl_socket import RtnlSocket
from emulator.plan.state import Machine, State


def ports_of(rtnl: RtnlSocket, names: frozenset[str]) -> State:
    """These interfaces as ports, as far as they exist and are Longhaul's; without the offloads of NICs.

    It omits ports with flows: they have more queues than this reads.
    """
    found = filter(None, link_messages.some_links(rtnl, sorted(names)))
    links = [link for link in found if OUR_VETH.match(link.name) or mark(link)]
    masters = sorted({link.master for link in links if link.master})
    bridges = filter(None, link_messages.some_links(rtnl, masters))
    bridge_names = {bridge.index: bridge.name for bridge in bridges}
    # By parent: the answer to a query by handle does not name the parent (sch_api.c, tc_get_qdisc).
    wanted = [(link.index, parent) for link in links for parent in (ROOT, NETEM_CLASS, SHAPER_CLASS)]
    egresses, kinds = egresses_of(qdisc_read.at(rtnl, wanted), {})
    seen = [link for link in links if kinds.get(link.index) != "prio"]
    ports = {link.name: port_of(link, bridge_names, egresses) for link in seen}
    return State(ports=ports, machine=Machine(memory_bytes=memory_bytes(), kernel=version()))
