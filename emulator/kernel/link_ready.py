"""Waits for links whose new carrier the kernel has not handled yet: until then no bridge forwards to them, and it drops
what they send.

The kernel handles a new carrier in a worker, some changes only once a second (net/core/link_watch.c); since 6.8 it does
so at once when a program queries that link alone (`linkwatch_sync_dev` in rtnl_getlink).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from emulator.kernel import link_messages
from emulator.kernel.link_messages import LinkMessage
from emulator.kernel.rtnl_socket import RtnlSocket

DOWN, LOWER_LAYER_DOWN = 2, 3
"""IF_OPER_DOWN and IF_OPER_LOWERLAYERDOWN of if.h: RFC 2863's states."""

LOOKS, PAUSE_S = 120, 0.01
"""A little longer than the kernel needs."""

Seen = TypeVar("Seen")


def ready(rtnl: RtnlSocket, is_ours: Callable[[LinkMessage], bool]) -> list[LinkMessage]:
    """All links, as soon as Longhaul's links with a carrier are usable; at the latest after a second."""
    return _ready(rtnl, lambda: link_messages.links(rtnl), lambda links: [one for one in links if is_ours(one)])


def ready_link(rtnl: RtnlSocket, name: str) -> LinkMessage | None:
    """The link of this name, as soon as it is usable; None when there is none."""
    return _ready(rtnl, lambda: link_messages.link(rtnl, name), lambda one: [one] if one else [])


def _ready(rtnl: RtnlSocket, read: Callable[[], Seen], ours: Callable[[Seen], list[LinkMessage]]) -> Seen:
    for look in range(LOOKS):
        seen = read()
        late = [one.index for one in ours(seen) if _is_late(one)]
        if not late:
            break
        if look:
            time.sleep(PAUSE_S)
        for index in late:
            link_messages.link(rtnl, index)
    return seen


def _is_late(link: LinkMessage) -> bool:
    return link.carrier and link.operstate in (DOWN, LOWER_LAYER_DOWN)
