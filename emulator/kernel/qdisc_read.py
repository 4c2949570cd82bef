"""Reads qdiscs and filters: what they are and their options, without their counters (qdisc_counters.py).

pyroute2 decodes the options by the classes that also encode them. Nearly all are as they were at the last look, and are
not decoded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from pyroute2.netlink import NLM_F_ECHO
from pyroute2.netlink.rtnl import RTM_GETQDISC, RTM_GETTFILTER, RTM_NEWQDISC, RTM_NEWTFILTER
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from emulator.kernel.rtnl_socket import HEADER, TCMSG, RtnlQuery, RtnlSocket, attribute, listed

READ = (1, 2)
"""TCA_KIND and TCA_OPTIONS (rtnetlink.h)."""


def every(rtnl: RtnlSocket) -> list[Any]:
    """All qdiscs in the namespace. Raises OSError."""
    return [_decoded(RTM_NEWQDISC, body) for body in rtnl.dump(RTM_GETQDISC, TCMSG.pack(0, 0, 0))]


def at(rtnl: RtnlSocket, places: Sequence[tuple[int, int]]) -> list[Any]:
    """The qdiscs at these places, each an interface and a parent; none for a place without one. Raises OSError."""
    # ECHO: without it the kernel sends the qdisc to listeners, but not to the sender (rtnetlink_send).
    bodies = rtnl.queries(
        [RtnlQuery(RTM_GETQDISC, TCMSG.pack(index, 0, parent), NLM_F_ECHO) for index, parent in places]
    )
    return [_decoded(RTM_NEWQDISC, body) for body in bodies if body is not None]


def filters(rtnl: RtnlSocket, index: int, parent: int) -> Iterator[Any]:
    """The filters of the qdisc with the handle `parent` on an interface, in the kernel's order. Raises OSError."""
    for body in rtnl.dump(RTM_GETTFILTER, TCMSG.pack(index, 0, parent)):
        yield _decoded(RTM_NEWTFILTER, body)


def _decoded(kind: int, body: bytes) -> Any:
    named = (attribute(one, content) for one, content in listed(body[TCMSG.size :]) if one in READ)
    return _message(kind, body[: TCMSG.size] + b"".join(named))


@lru_cache(maxsize=2048)  # each takes 8 kB
def _message(kind: int, body: bytes) -> Any:
    found = tcmsg(HEADER.pack(HEADER.size + len(body), kind, 0, 0, 0) + body)
    found.decode()
    return found
