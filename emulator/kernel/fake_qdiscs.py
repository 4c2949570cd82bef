"""The queues of the kernel in memory: what each operation does to a port, or why the real kernel refuses it."""

from __future__ import annotations

import errno
from dataclasses import replace

from emulator.errors import KernelError
from emulator.model.jitter_distribution import MAX_SIZE
from emulator.plan import qdisc_ops
from emulator.plan.qdisc_values import ORDER_RATE_BYTES_PER_S, Band, Egress, Netem

QueueOp = (
    qdisc_ops.AddQueues
    | qdisc_ops.AddBands
    | qdisc_ops.AddFilters
    | qdisc_ops.SetNetem
    | qdisc_ops.SetShaper
    | qdisc_ops.SetQueue
    | qdisc_ops.DelShaper
    | qdisc_ops.DelEgress
)


EMPTY = Netem(limit=0)
"""The queue of a band until it has a netem."""


def changed(op: QueueOp, now: Egress | None, tx_queues: int) -> Egress | None:
    """The queues of a port with `tx_queues` TX queues after the operation. Raises KernelError."""
    match op:
        case qdisc_ops.AddQueues():
            _need(op, now is None, errno.EEXIST)
            _need(op, tx_queues == op.queues > 1, errno.EOPNOTSUPP)
            return Egress(Netem(limit=0), queues=op.queues, alike=False)
        case qdisc_ops.AddBands():
            _need(op, now is None, errno.EEXIST)
            _need(op, 1 < op.bands <= 16, errno.EINVAL)
            return Egress(EMPTY, bands=(Band((), Egress(EMPTY)),) * (op.bands - 1))
        case qdisc_ops.SetNetem(band=None):
            return _with_netem(op, now or Egress(op.netem))
    if now is None:
        raise _refused(op, errno.ENOENT)
    if isinstance(op, qdisc_ops.AddFilters):
        _need(op, len(op.bands) == len(now.bands), errno.EINVAL)
        found = zip(op.bands, now.bands, strict=True)
        return replace(now, bands=tuple(Band(filters, band.egress) for filters, band in found))
    band = None if isinstance(op, qdisc_ops.DelEgress) else op.band
    if band and not isinstance(op, qdisc_ops.DelEgress):
        _need(op, band <= len(now.bands), errno.ENOENT)
        inner = changed(replace(op, band=None), now.bands[band - 1].egress, 1)
        assert inner is not None
        bands = list(now.bands)
        bands[band - 1] = replace(bands[band - 1], egress=inner)
        return replace(now, bands=tuple(bands))
    _need(op, isinstance(op, qdisc_ops.DelEgress) or (band is None) == (not now.bands), errno.ENOENT)
    match op:
        case qdisc_ops.SetNetem():
            return _with_netem(op, now)
        case qdisc_ops.SetShaper():
            _need(op, now.queues == 1, errno.ENOENT)
            return replace(now, shaper=op.shaper)
        case qdisc_ops.SetQueue():
            _need(op, now.shaper is not None, errno.ENOENT)
            return replace(now, aqm=op.queue)
        case qdisc_ops.DelShaper():
            _need(op, now.shaper is not None, errno.ENOENT)
            return replace(now, shaper=None, aqm=None)
        case qdisc_ops.DelEgress():
            return None


def _with_netem(op: qdisc_ops.SetNetem, before: Egress) -> Egress:
    _need(op, op.netem.rate_bytes_per_s <= ORDER_RATE_BYTES_PER_S, errno.ERANGE)
    _need(op, not op.netem.distribution or len(op.netem.distribution) <= MAX_SIZE, errno.EINVAL)
    _need(op, op.queues == before.queues, errno.EINVAL)
    return replace(before, netem=op.netem, alike=True)


def _need(op: QueueOp, there: bool, code: int) -> None:
    if not there:
        raise _refused(op, code)


def _refused(op: QueueOp, code: int) -> KernelError:
    return KernelError(op, code, errno.errorcode[code])
