"""The operations on queues as netlink messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyroute2.netlink import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_DELQDISC, RTM_NEWQDISC, RTM_NEWTFILTER
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from emulator.kernel import codec_aqm, codec_flower, codec_netem
from emulator.kernel.qdisc_observe import NETEM_HANDLE, ROOT
from emulator.plan import qdisc_ops
from emulator.plan.netem_lowering import netem_of_queue
from emulator.plan.qdisc_ops import netem_place, shaper_major

QueueOp = (
    qdisc_ops.AddBands
    | qdisc_ops.AddFilters
    | qdisc_ops.AddQueues
    | qdisc_ops.SetNetem
    | qdisc_ops.SetShaper
    | qdisc_ops.SetQueue
    | qdisc_ops.DelShaper
    | qdisc_ops.DelEgress
    | qdisc_ops.Together
)
Index = Callable[[str], int]


def messages(op: QueueOp, index: Index) -> list[tcmsg]:
    """The messages to send, in order; `index` finds an interface by name and raises OSError when there is none."""
    singles = op.ops if isinstance(op, qdisc_ops.Together) else (op,)
    return [message for one in singles for message in _messages(one, index(one.port))]


def _messages(op: Any, index: int) -> Iterator[tcmsg]:
    match op:
        case qdisc_ops.AddQueues():
            yield _set(index, NETEM_HANDLE, ROOT, "mq")
        case qdisc_ops.AddBands():
            yield _set(index, NETEM_HANDLE, ROOT, "prio", codec_flower.encode_bands(op.bands))
        case qdisc_ops.AddFilters():
            yield from _filters(op, index)
        case qdisc_ops.SetNetem():
            yield from _netem(op, index)
        case qdisc_ops.SetShaper():
            over, own = netem_place(op.band)[1], shaper_major(op.band)
            yield _set(index, own << 16, over << 16 | 1, "tbf", codec_netem.encode_shaper(op.shaper))
        case qdisc_ops.SetQueue():
            kind = op.queue.kind if op.queue else "bfifo"
            inner = codec_aqm.encode(op.queue, op.shaper) if op.queue else codec_aqm.encode_fifo(op.shaper)
            yield _set(index, op.major << 16, shaper_major(op.band) << 16 | 1, kind, inner)
        case qdisc_ops.DelShaper():
            over, own = netem_place(op.band)[1], shaper_major(op.band)
            yield _message(RTM_DELQDISC, index, own << 16, over << 16 | 1)
        case qdisc_ops.DelEgress():
            # Without a handle: the kernel deletes whatever is at the root.
            yield _message(RTM_DELQDISC, index, 0, ROOT)


def _netem(op: qdisc_ops.SetNetem, index: int) -> Iterator[tcmsg]:
    if op.queues == 1:
        place, major = netem_place(op.band)
        parent = ROOT if place is None else NETEM_HANDLE | place
        yield _set(index, major << 16, parent, "netem", codec_netem.encode_netem(op.netem, reseed=op.reseed))
        return
    for queue in range(op.queues):
        body = codec_netem.encode_netem(netem_of_queue(op.netem, queue), reseed=op.reseed)
        yield _set(index, (qdisc_ops.QUEUE_MAJOR + queue) << 16, NETEM_HANDLE | queue + 1, "netem", body)


def _filters(op: qdisc_ops.AddFilters, index: int) -> Iterator[tcmsg]:
    for number, band, one in op.numbered:
        body = codec_flower.encode_filter(one, NETEM_HANDLE | band + 1)
        message = _message(RTM_NEWTFILTER, index, 0, NETEM_HANDLE)
        message["info"] = number << 16 | codec_flower.filter_protocol(one)
        message["header"]["flags"] |= NLM_F_CREATE | NLM_F_EXCL
        message["attrs"] = [("TCA_KIND", "flower"), ("TCA_OPTIONS", body)]
        yield message


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
