"""A look at a few ports alone: what `observe` says of them, without reading the whole machine."""

from __future__ import annotations

from typing import Any

from pyroute2.netlink import NLM_F_ACK, NLM_F_ECHO, NLM_F_REQUEST, NLMSG_ERROR
from pyroute2.netlink.rtnl import RTM_GETLINK, RTM_GETQDISC
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from ..state import Machine, State
from .nics import mark
from .observe import OUR_VETH, ROOT, SHAPER_CLASS, SHAPER_HANDLE, egresses_of, has_seed, memory_bytes, port_of


def ports_of(ip: Any, names: frozenset[str]) -> State:
    """These interfaces as ports, as far as they exist and are ours; what real ones merge is not looked at."""
    found = _ask(ip, [_link(IFLA_IFNAME=name) for name in sorted(names)])
    links = [link for link in found if OUR_VETH.match(link.get_attr("IFLA_IFNAME")) or mark(link)]
    masters = {link.get_attr("IFLA_MASTER") for link in links} - {None}
    bridges = _ask(ip, [_link(index) for index in sorted(masters)])
    bridge_names = {bridge["index"]: bridge.get_attr("IFLA_IFNAME") for bridge in bridges}
    places = ({"parent": ROOT}, {"handle": SHAPER_HANDLE}, {"parent": SHAPER_CLASS})
    wanted = [_qdisc(link["index"], **place) for link in links for place in places]
    egresses, _ = egresses_of(_ask(ip, wanted), {})
    ports = {link.get_attr("IFLA_IFNAME"): port_of(link, bridge_names, egresses) for link in links}
    return State(ports=ports, machine=Machine(memory_bytes=memory_bytes(), has_seed=has_seed()))


def _ask(ip: Any, messages: list[Any]) -> list[Any]:
    """All answers to all messages, sent as one; what does not exist gives none."""
    answers = ip.nlm_request_batch(messages, noraise=True) if messages else ()
    return [answer for answer in answers if answer["header"]["type"] != NLMSG_ERROR]  # the type of an ACK, too


def _link(index: int = 0, **attributes: str) -> Any:
    message = ifinfmsg()
    message["index"], message["attrs"] = index, list(attributes.items())
    return _request(message, RTM_GETLINK)


def _qdisc(index: int, parent: int = 0, handle: int = 0) -> Any:
    message = tcmsg()
    message["index"], message["parent"], message["handle"] = index, parent, handle
    return _request(message, RTM_GETQDISC)


def _request(message: Any, kind: int) -> Any:
    message["header"]["type"] = kind
    # ECHO: without it a qdisc is told to those who listen for changes, but not to who asked (rtnetlink_send).
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | NLM_F_ECHO
    return message
