"""The queues below a bottleneck on the wire, both ways. Layouts: include/uapi/linux/pkt_sched.h (Linux 7.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct
from pyroute2.netlink import NLA_F_NESTED, nla

from emulator.plan.aqm import (  # fmt: skip
    FLOWS,
    MOST_MEMORY_BYTES,
    Aqm,
    Cake,
    Codel,
    DualPi2,
    Fq,
    Pie,
    ticks_to_us,
    us_to_ticks,
)
from emulator.plan.qdisc_values import Shaper
from emulator.plan.red import Red, idle_table

_ECN = 1
"""TC_RED_ECN."""


class _Layout(Struct, frozen=True):
    """The attributes of a queue after TCA_KIND_UNSPEC, in the kernel's order, with the type of those that are no
    uint32. `tell` gives those that Longhaul sets, `read` makes the queue of those that are dumped (0: not dumped)."""

    attributes: tuple[str, ...]
    tell: Callable[[Any], Mapping[str, int]]
    read: Callable[[Callable[[str], int]], Aqm]

    def options(self, kind: str) -> type[nla]:
        """The class with which pyroute2 encodes and decodes the attributes."""
        split = [attribute.partition(":") for attribute in self.attributes]
        known = tuple((_name(kind, name), size or "uint32") for name, _, size in split)
        # fq_pie and dualpi2 refuse options without the flag (nla_parse_nested); the older queues ignore it.
        body = {"nla_flags": NLA_F_NESTED, "nla_map": ((_name(kind, "UNSPEC"), "none"), *known)}
        return type(f"{kind}_options", (nla,), body)


def _name(kind: str, attribute: str) -> str:
    return f"TCA_{kind.upper()}_{attribute}"


def _of_codel(queue: Codel) -> dict[str, int]:
    target, interval = ticks_to_us(queue.target_ticks), ticks_to_us(queue.interval_ticks)
    values = {"TARGET": target, "LIMIT": queue.limit, "INTERVAL": interval, "ECN": int(queue.ecn)}
    return values | _room(queue.flows)


def _room(flows: int) -> dict[str, int]:
    """The memory of a queue with flows. Their number is the kernel's default: it refuses one in a change."""
    return {"MEMORY_LIMIT": MOST_MEMORY_BYTES} if flows else {}


def _codel(get: Callable[[str], int], flows: int = 0) -> Codel:
    target, interval = us_to_ticks(get("TARGET")), us_to_ticks(get("INTERVAL"))
    return Codel(get("LIMIT"), target, interval, bool(get("ECN")), get("FLOWS") or flows)


def _of_pie(queue: Pie) -> dict[str, int]:
    return {"TARGET": queue.target_us, "LIMIT": queue.limit, "ECN": int(queue.ecn)} | _room(queue.flows)


def _pie(get: Callable[[str], int], flows: int = 0) -> Pie:
    return Pie(get("LIMIT"), get("TARGET"), bool(get("ECN")), get("FLOWS") or flows)


def _of_cake(queue: Cake) -> dict[str, int]:
    return {"BASE_RATE64": 0, "RTT": queue.interval_us, "TARGET": queue.target_us, "MEMORY": queue.memory_bytes}


def _of_fq(queue: Fq) -> dict[str, int]:
    return {"PLIMIT": queue.limit, "FLOW_PLIMIT": queue.flow_limit, "RATE_ENABLE": 0}


def _of_dualpi2(queue: DualPi2) -> dict[str, int]:
    times = {"TARGET": queue.target_us, "STEP_THRESH_US": queue.step_us}
    return {"LIMIT": queue.limit, "MEMORY_LIMIT": MOST_MEMORY_BYTES} | times


_LAYOUTS = {
    "codel": _Layout(("TARGET", "LIMIT", "INTERVAL", "ECN", "CE_THRESHOLD"), _of_codel, _codel),
    "fq_codel": _Layout(
        (
            "TARGET", "LIMIT", "INTERVAL", "ECN", "FLOWS", "QUANTUM", "CE_THRESHOLD", "DROP_BATCH_SIZE", "MEMORY_LIMIT",
            "CE_THRESHOLD_SELECTOR:uint8", "CE_THRESHOLD_MASK:uint8",
        ),
        _of_codel, partial(_codel, flows=FLOWS),
    ),
    "pie": _Layout(
        ("TARGET", "LIMIT", "TUPDATE", "ALPHA", "BETA", "ECN", "BYTEMODE", "DQ_RATE_ESTIMATOR"), _of_pie, _pie
    ),
    "fq_pie": _Layout(
        (
            "LIMIT", "FLOWS", "TARGET", "TUPDATE", "ALPHA", "BETA", "QUANTUM", "MEMORY_LIMIT", "ECN_PROB", "ECN",
            "BYTEMODE", "DQ_RATE_ESTIMATOR",
        ),
        _of_pie, partial(_pie, flows=FLOWS),
    ),
    "cake": _Layout(
        (
            "PAD:hex", "BASE_RATE64:uint64", "DIFFSERV_MODE", "ATM", "FLOW_MODE", "OVERHEAD:int32", "RTT", "TARGET",
            "AUTORATE", "MEMORY", "NAT", "RAW", "WASH", "MPU", "INGRESS", "ACK_FILTER", "SPLIT_GSO", "FWMARK",
        ),
        _of_cake, lambda get: Cake(get("MEMORY"), get("TARGET"), get("RTT")),
    ),
    "fq": _Layout(
        (
            "PLIMIT", "FLOW_PLIMIT", "QUANTUM", "INITIAL_QUANTUM", "RATE_ENABLE", "FLOW_DEFAULT_RATE", "FLOW_MAX_RATE",
            "BUCKETS_LOG", "FLOW_REFILL_DELAY", "ORPHAN_MASK", "LOW_RATE_THRESHOLD", "CE_THRESHOLD", "TIMER_SLACK",
            "HORIZON", "HORIZON_DROP:uint8", "PRIOMAP:hex", "WEIGHTS:hex", "OFFLOAD_HORIZON",
        ),
        _of_fq, lambda get: Fq(get("PLIMIT"), get("FLOW_PLIMIT")),
    ),
    "dualpi2": _Layout(
        (
            "LIMIT", "MEMORY_LIMIT", "TARGET", "TUPDATE", "ALPHA", "BETA", "STEP_THRESH_PKTS", "STEP_THRESH_US",
            "MIN_QLEN_STEP", "COUPLING:uint8", "DROP_OVERLOAD:uint8", "DROP_EARLY:uint8", "C_PROTECTION:uint8",
            "ECN_MASK:uint8", "SPLIT_GSO:uint8",
        ),
        _of_dualpi2, lambda get: DualPi2(get("LIMIT"), get("TARGET"), get("STEP_THRESH_US")),
    ),
}  # fmt: skip
"""By the kernel's name of the queue; red's parameters are a struct."""


def encode(queue: Aqm, shaper: Shaper) -> dict[str, Any]:
    """The message body. RED computes with the time that a packet takes at the bottleneck."""
    if isinstance(queue, Red):
        return _encode_red(queue, shaper.rate_bytes_per_s)
    told = _LAYOUTS[queue.kind].tell(queue)
    return {"attrs": [[_name(queue.kind, name), value] for name, value in told.items()]}


def _encode_red(queue: Red, rate_bytes_per_s: int) -> dict[str, Any]:
    parms = {
        "limit": queue.limit, "qth_min": queue.min_bytes, "qth_max": queue.max_bytes, "Wlog": queue.wlog,
        "Plog": queue.plog, "Scell_log": queue.scell, "flags": _ECN if queue.ecn else 0,
    }  # fmt: skip
    table = idle_table(queue, rate_bytes_per_s)
    return {"attrs": [["TCA_RED_PARMS", parms], ["TCA_RED_STAB", table], ["TCA_RED_MAX_P", queue.max_p]]}


def encode_fifo(shaper: Shaper) -> dict[str, Any]:
    """The message body of a bfifo (struct tc_fifo_qopt), the queue inside a tbf."""
    return {"limit": shaper.limit_bytes}


def decode(kind: str, o: Any) -> Aqm | None:
    """A dumped queue of one of the kinds that Longhaul installs; None for any other."""
    if kind == "red":
        return _decode_red(o)
    layout = _LAYOUTS.get(kind)
    return layout.read(lambda name: int(o.get_attr(_name(kind, name)) or 0)) if layout else None


def _decode_red(o: Any) -> Red:
    parms = o.get_attr("TCA_RED_PARMS")
    return Red(
        parms["limit"], parms["qth_min"], parms["qth_max"], parms["Wlog"], parms["Plog"], parms["Scell_log"],
        o.get_attr("TCA_RED_MAX_P"), bool(parms["flags"] & _ECN),
    )  # fmt: skip


class RedOptions(nla):  # type: ignore[misc]
    """struct tc_red_qopt, the table of decay (never dumped) and the probability in parts per 2^32."""

    nla_map = (
        ("TCA_RED_UNSPEC", "none"), ("TCA_RED_PARMS", "red_parms"), ("TCA_RED_STAB", "cdata"),
        ("TCA_RED_MAX_P", "uint32"), ("TCA_RED_FLAGS", "hex"), ("TCA_RED_EARLY_DROP_BLOCK", "uint32"),
        ("TCA_RED_MARK_BLOCK", "uint32"),
    )  # fmt: skip

    class red_parms(nla):  # type: ignore[misc]  # noqa: N801 (pyroute2 finds it by this name)
        fields = (
            ("limit", "I"), ("qth_min", "I"), ("qth_max", "I"),
            ("Wlog", "B"), ("Plog", "B"), ("Scell_log", "B"), ("flags", "B"),
        )  # fmt: skip


class FifoOptions(nla):  # type: ignore[misc]
    fields = (("limit", "I"),)


OPTIONS = {
    "bfifo": FifoOptions, "red": RedOptions, **{kind: layout.options(kind) for kind, layout in _LAYOUTS.items()},
}  # fmt: skip
"""By the kernel's name of the queue."""
