"""Waits for links whose new carrier the kernel has not handled yet: until then no bridge forwards to them, and it drops
what they send.

The kernel handles a new carrier in a worker, some changes only once a second (net/core/link_watch.c); since 6.8 it does
so at once when a program queries that link alone (`linkwatch_sync_dev` in rtnl_getlink).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

IFF_LOWER_UP = 1 << 16
STILL_DOWN = ("DOWN", "LOWERLAYERDOWN")
"""RFC 2863's states, in pyroute2's words for IF_OPER_*."""

LOOKS, PAUSE_S = 120, 0.01
"""A little longer than the kernel needs."""


def ready(ip: Any, is_ours: Callable[[Any], bool]) -> list[Any]:
    """All links, as soon as Longhaul's links with a carrier are usable; at the latest after a second."""
    for look in range(LOOKS):
        links = list(ip.get_links())
        late = [link["index"] for link in links if is_ours(link) and _is_late(link)]
        if not late:
            break
        if look:
            time.sleep(PAUSE_S)
        for index in late:
            ip.link("get", index=index)
    return links


def _is_late(link: Any) -> bool:
    return bool(link["flags"] & IFF_LOWER_UP) and link.get_attr("IFLA_OPERSTATE") in STILL_DOWN
