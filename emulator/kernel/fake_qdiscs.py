"""The queues of the kernel in memory: what each operation does to a port, or why the real kernel refuses it."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial, singledispatch

from msgspec.structs import replace

from emulator.errors import KernelError
from emulator.model.jitter_distribution import MAX_SIZE
from emulator.plan.qdisc_ops import (
    AddBands,
    AddFilters,
    AddQueues,
    DelEgress,
    DelShaper,
    QueueOp,
    SetNetem,
    SetQueue,
    SetShaper,
)
from emulator.plan.qdisc_values import ORDER_RATE_BYTES_PER_S, Band, Egress, Netem

BandOp = SetNetem | SetShaper | SetQueue | DelShaper
"""The operations that name a band."""

EMPTY = Netem(limit=0)
"""The queue of a band until it has a netem."""


@singledispatch
def changed(op: QueueOp, _now: Egress | None, _tx_queues: int) -> Egress | None:
    """The queues of a port after the operation. Raises KernelError.

    It takes the queues that the port has now, and how many TX queues it has.
    """
    raise TypeError(f"no such operation on queues: {op!r}")


@changed.register
def _(op: AddQueues, now: Egress | None, tx_queues: int) -> Egress | None:
    _need(op, now is None, errno.EEXIST)
    _need(op, tx_queues == op.queues > 1, errno.EOPNOTSUPP)
    return Egress(Netem(limit=0), queues=op.queues, alike=False)


@changed.register
def _(op: AddBands, now: Egress | None, _: int) -> Egress | None:
    _need(op, now is None, errno.EEXIST)
    _need(op, 1 < op.bands <= 16, errno.EINVAL)
    return Egress(EMPTY, bands=(Band((), Egress(EMPTY)),) * (op.bands - 1))


@changed.register
def _(op: AddFilters, now: Egress | None, _: int) -> Egress | None:
    if now is None:
        raise _refused(op, errno.ENOENT)
    _need(op, len(op.bands) == len(now.bands), errno.EINVAL)
    found = zip(op.bands, now.bands, strict=True)
    return replace(now, bands=tuple(Band(filters, band.egress) for filters, band in found))


@changed.register
def _(op: SetNetem, now: Egress | None, _: int) -> Egress | None:
    if op.band is None:
        return _with_netem(op, now or Egress(op.netem))
    return _in_band(op, now, partial(_with_netem, op))


@changed.register
def _(op: SetShaper, now: Egress | None, _: int) -> Egress | None:
    def change(before: Egress) -> Egress:
        _need(op, before.queues == 1, errno.ENOENT)
        return replace(before, shaper=op.shaper)

    return _in_band(op, now, change)


@changed.register
def _(op: SetQueue, now: Egress | None, _: int) -> Egress | None:
    def change(before: Egress) -> Egress:
        _need(op, before.shaper is not None, errno.ENOENT)
        return replace(before, aqm=op.queue)

    return _in_band(op, now, change)


@changed.register
def _(op: DelShaper, now: Egress | None, _: int) -> Egress | None:
    def change(before: Egress) -> Egress:
        _need(op, before.shaper is not None, errno.ENOENT)
        return replace(before, shaper=None, aqm=None)

    return _in_band(op, now, change)


@changed.register
def _(op: DelEgress, now: Egress | None, _: int) -> Egress | None:
    _need(op, now is not None, errno.ENOENT)
    return None


def _in_band(op: BandOp, now: Egress | None, change: Callable[[Egress], Egress]) -> Egress:
    """A port's queues with a change in the band that the operation names, or at the root of a port without bands."""
    if now is None or (op.band is None) == bool(now.bands):
        raise _refused(op, errno.ENOENT)
    if not op.band:
        return change(now)
    _need(op, op.band <= len(now.bands), errno.ENOENT)
    bands = list(now.bands)
    bands[op.band - 1] = replace(bands[op.band - 1], egress=change(bands[op.band - 1].egress))
    return replace(now, bands=tuple(bands))


def _with_netem(op: SetNetem, before: Egress) -> Egress:
    _need(op, op.netem.rate_bytes_per_s <= ORDER_RATE_BYTES_PER_S, errno.ERANGE)
    _need(op, not op.netem.distribution or len(op.netem.distribution) <= MAX_SIZE, errno.EINVAL)
    _need(op, op.queues == before.queues, errno.EINVAL)
    return replace(before, netem=op.netem, alike=True)


def _need(op: QueueOp, there: bool, code: int) -> None:
    if not there:
        raise _refused(op, code)


def _refused(op: QueueOp, code: int) -> KernelError:
    return KernelError(op, code, errno.errorcode[code])
