"""Reads the queues of ports back: from dumps of qdiscs to an `Egress`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from emulator.kernel import codec_aqm, codec_flower, codec_netem
from emulator.model.flow_match import Filter
from emulator.plan.netem_lowering import common_netem
from emulator.plan.qdisc_ops import netem_place, shaper_major
from emulator.plan.qdisc_values import Band, Egress, Netem

NETEM_HANDLE = 0x10000
NETEM_CLASS = NETEM_HANDLE | 1
SHAPER_CLASS = 0x100001
ROOT = 0xFFFFFFFF

FiltersOn = Callable[[int], Iterable[Any]]
"""The filters at the root of an interface, by its index."""


def egresses_of(
    qdiscs: Iterable[Any], tx_queues: Mapping[int, int], filters_on: FiltersOn = lambda _: ()
) -> tuple[dict[int, Egress], dict[int, str]]:
    """Longhaul's queues by interface index, and the kind of a qdisc that somebody else installed.

    `tx_queues` gives each interface's number of TX queues, 1 by default; `filters_on` a root prio's filters.
    """
    every: dict[int, list[Any]] = {}
    installed: dict[int, str] = {}
    for qdisc in qdiscs:
        every.setdefault(qdisc["index"], []).append(qdisc)
        if qdisc["handle"]:  # the kernel's own queues have no handle
            installed.setdefault(qdisc["index"], qdisc.get_attr("TCA_KIND"))
    found = {
        index: egress
        for index, ours in every.items()
        if (egress := _egress(ours, tx_queues.get(index, 1), lambda i=index: filters_on(i)))  # type: ignore[misc]
    }
    return found, installed


def _egress(qdiscs: list[Any], tx_queues: int, filters: Callable[[], Iterable[Any]]) -> Egress | None:
    """All queues of one interface together; None when none of them is Longhaul's."""
    by_parent = {qdisc["parent"]: qdisc for qdisc in qdiscs}
    root = by_parent.get(ROOT)
    if root is None:
        return None
    kind, ours = root.get_attr("TCA_KIND"), root["handle"] == NETEM_HANDLE
    if kind == "netem":
        return _one(by_parent, ROOT, None)
    if kind == "mq" and ours:
        below = {p & 0xFFFF: q for p, q in by_parent.items() if p & ~0xFFFF == NETEM_HANDLE and _is_netem(q)}
        return _spread(tx_queues, {number: _netem(qdisc) for number, qdisc in below.items()})
    if kind == "prio" and ours:
        return _banded(by_parent, root.get_attr("TCA_OPTIONS")["bands"], filters())
    return None


def _banded(by_parent: Mapping[int, Any], bands: int, filters: Iterable[Any]) -> Egress:
    """The bands of a root prio with the filters that lead to them."""
    leading: dict[int, list[tuple[int, Filter]]] = {}
    for one in filters:
        if one.get_attr("TCA_KIND") == "flower" and (options := one.get_attr("TCA_OPTIONS")):
            class_id, found = codec_flower.decode_filter(options)
            leading.setdefault(class_id & 0xFFFF, []).append((one["info"] >> 16, found))
    parts = [_one(by_parent, NETEM_HANDLE | band + 1, band) or Egress(Netem(limit=0)) for band in range(bands)]
    return replace(
        parts[0],
        bands=tuple(
            Band(tuple(found for _, found in sorted(leading.get(band + 1, []), key=lambda pair: pair[0])), parts[band])
            for band in range(1, bands)
        ),
    )


def _one(by_parent: Mapping[int, Any], parent: int, band: int | None) -> Egress | None:
    """One netem with its children; None when it does not exist."""
    netem = by_parent.get(parent)
    if netem is None or not _is_netem(netem):
        return None
    shaper = by_parent.get(netem_place(band)[1] << 16 | 1)
    if shaper is None or shaper["handle"] != shaper_major(band) << 16:
        return Egress(_netem(netem))
    queue = by_parent.get(shaper["handle"] | 1)
    aqm = codec_aqm.decode(queue.get_attr("TCA_KIND"), queue.get_attr("TCA_OPTIONS")) if queue else None
    return Egress(_netem(netem), codec_netem.decode_shaper(shaper.get_attr("TCA_OPTIONS")), aqm)


def _is_netem(qdisc: Any) -> bool:
    return bool(qdisc.get_attr("TCA_KIND") == "netem")


def _netem(qdisc: Any) -> Netem:
    return codec_netem.decode_netem(qdisc.get_attr("TCA_OPTIONS"))


def _spread(places: int, netems: dict[int, Netem]) -> Egress:
    """The netems of all TX queues together, numbered from 1."""
    ordered = [netems[number] for number in sorted(netems)]
    common = common_netem(ordered) if len(ordered) == places else None
    limit = max((netem.limit for netem in ordered), default=0)
    return Egress(common or Netem(limit=limit), queues=places, alike=common is not None)
