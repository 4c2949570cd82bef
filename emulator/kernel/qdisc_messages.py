"""The operations on queues as netlink messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any

from pyroute2.netlink import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_DELQDISC, RTM_NEWQDISC, RTM_NEWTFILTER
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from emulator.kernel import codec_aqm, codec_flower, codec_netem
from emulator.kernel.qdisc_observe import NETEM_HANDLE, ROOT
from emulator.plan.netem_lowering import netem_of_queue
from emulator.plan.qdisc_ops import (
    QUEUE_MAJOR,
    AddBands,
    AddFilters,
    AddQueues,
    DelEgress,
    DelShaper,
    QueueOp,
    SetNetem,
    SetQueue,
    SetShaper,
    Together,
    netem_place,
    shaper_major,
)

MessageOp = QueueOp | Together
Index = Callable[[str], int]


@singledispatch
def messages(op: MessageOp, _index: Index) -> list[tcmsg]:
    """The messages to send, in order. The index function finds an interface by name, or raises OSError."""
    raise TypeError(f"no message for {op!r}")


@messages.register
def _(op: Together, index: Index) -> list[tcmsg]:
    return [message for one in op.ops for message in messages(one, index)]


@messages.register
def _(op: AddQueues, index: Index) -> list[tcmsg]:
    return [_set(index(op.port), NETEM_HANDLE, ROOT, "mq")]


@messages.register
def _(op: AddBands, index: Index) -> list[tcmsg]:
    return [_set(index(op.port), NETEM_HANDLE, ROOT, "prio", codec_flower.encode_bands(op.bands))]


@messages.register
def _(op: AddFilters, index: Index) -> list[tcmsg]:
    return list(_filters(op, index(op.port)))


@messages.register
def _(op: SetNetem, index: Index) -> list[tcmsg]:
    return list(_netem(op, index(op.port)))


@messages.register
def _(op: SetShaper, index: Index) -> list[tcmsg]:
    over, own = netem_place(op.band)[1], shaper_major(op.band)
    return [_set(index(op.port), own << 16, over << 16 | 1, "tbf", codec_netem.encode_shaper(op.shaper))]


@messages.register
def _(op: SetQueue, index: Index) -> list[tcmsg]:
    kind = op.queue.kind if op.queue else "bfifo"
    inner = codec_aqm.encode(op.queue, op.shaper) if op.queue else codec_aqm.encode_fifo(op.shaper)
    return [_set(index(op.port), op.major << 16, shaper_major(op.band) << 16 | 1, kind, inner)]


@messages.register
def _(op: DelShaper, index: Index) -> list[tcmsg]:
    over, own = netem_place(op.band)[1], shaper_major(op.band)
    return [_message(RTM_DELQDISC, index(op.port), own << 16, over << 16 | 1)]


@messages.register
def _(op: DelEgress, index: Index) -> list[tcmsg]:
    # Without a handle: the kernel deletes whatever is at the root.
    return [_message(RTM_DELQDISC, index(op.port), 0, ROOT)]


def _netem(op: SetNetem, index: int) -> Iterator[tcmsg]:
    if op.queues == 1:
        place, major = netem_place(op.band)
        parent = ROOT if place is None else NETEM_HANDLE | place
        yield _set(index, major << 16, parent, "netem", codec_netem.encode_netem(op.netem, reseed=op.reseed))
        return
    for queue in range(op.queues):
        body = codec_netem.encode_netem(netem_of_queue(op.netem, queue), reseed=op.reseed)
        yield _set(index, (QUEUE_MAJOR + queue) << 16, NETEM_HANDLE | queue + 1, "netem", body)


def _filters(op: AddFilters, index: int) -> Iterator[tcmsg]:
    for number, band, one in op.numbered:
        body = codec_flower.encode_filter(one, NETEM_HANDLE | band + 1)
        message = _message(RTM_NEWTFILTER, index, 0, NETEM_HANDLE)
        message["info"] = number << 16 | codec_flower.filter_protocol(one)
        message["header"]["flags"] |= NLM_F_CREATE | NLM_F_EXCL
        message["attrs"] = [("TCA_KIND", "flower"), ("TCA_OPTIONS", body)]
        yield message


def netem_without_options(index: int) -> tcmsg:
    """A netem that every kernel refuses: with EINVAL where it has sch_netem, with ENOENT where not."""
    message = _message(RTM_NEWQDISC, index, NETEM_HANDLE, ROOT)
    message["header"]["flags"] |= NLM_F_CREATE | NLM_F_EXCL
    message["attrs"] = [("TCA_KIND", "netem")]
    return message


def _set(index: int, handle: int, parent: int, kind: str, body: Any = None) -> tcmsg:
    message = _message(RTM_NEWQDISC, index, handle, parent)
    message["header"]["flags"] |= NLM_F_CREATE | NLM_F_REPLACE
    message["attrs"] = [("TCA_KIND", kind)] + ([("TCA_OPTIONS", body)] if body else [])
    return message


def _message(kind: int, index: int, handle: int, parent: int) -> tcmsg:
    message = tcmsg()
    message["index"], message["handle"], message["parent"] = index, handle, parent
    message["header"]["type"], message["header"]["flags"] = kind, NLM_F_REQUEST
    return message
