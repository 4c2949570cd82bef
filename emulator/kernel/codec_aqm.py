"""codel, fq_codel and red on the wire, both ways. Layouts: include/uapi/linux/pkt_sched.h."""

from __future__ import annotations

from typing import Any

from pyroute2.netlink import nla

from emulator.plan.aqm import Aqm, Codel, Red, red_table, ticks_to_us, us_to_ticks
from emulator.plan.qdisc_values import Shaper

_ECN = 1
"""TC_RED_ECN."""


def encode(queue: Aqm, shaper: Shaper) -> dict[str, Any]:
    """The message body. RED computes with the time that a packet takes at the bottleneck."""
    if isinstance(queue, Red):
        parms = {
            "limit": queue.limit, "qth_min": queue.min_bytes, "qth_max": queue.max_bytes, "Wlog": queue.wlog,
            "Plog": queue.plog, "Scell_log": queue.scell, "flags": _ECN if queue.ecn else 0,
        }  # fmt: skip
        table = red_table(queue, shaper.rate_bytes_per_s)
        return {"attrs": [["TCA_RED_PARMS", parms], ["TCA_RED_STAB", table], ["TCA_RED_MAX_P", queue.max_p]]}
    prefix = f"TCA_{queue.kind.upper()}"
    target, interval = ticks_to_us(queue.target_ticks), ticks_to_us(queue.interval_ticks)
    values = {"TARGET": target, "LIMIT": queue.limit, "INTERVAL": interval, "ECN": int(queue.ecn)}
    if queue.flows:
        values["FLOWS"] = queue.flows
    return {"attrs": [[f"{prefix}_{name}", value] for name, value in values.items()]}


def encode_fifo(shaper: Shaper) -> dict[str, Any]:
    """The message body of a bfifo (struct tc_fifo_qopt), the queue inside a tbf."""
    return {"limit": shaper.limit_bytes}


def decode(kind: str, o: Any) -> Aqm:
    """A dumped codel, fq_codel or red."""
    if kind == "red":
        parms = o.get_attr("TCA_RED_PARMS")
        return Red(
            parms["limit"], parms["qth_min"], parms["qth_max"], parms["Wlog"], parms["Plog"], parms["Scell_log"],
            o.get_attr("TCA_RED_MAX_P"), bool(parms["flags"] & _ECN),
        )  # fmt: skip
    limit, target, interval, ecn, flows = (
        o.get_attr(f"TCA_{kind.upper()}_{name}") or 0 for name in ("LIMIT", "TARGET", "INTERVAL", "ECN", "FLOWS")
    )
    return Codel(limit, us_to_ticks(target), us_to_ticks(interval), bool(ecn), flows)


def _attributes(kind: str, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"TCA_{kind}_{name}", "none" if name == "UNSPEC" else "uint32") for name in names)


class CodelOptions(nla):  # type: ignore[misc]
    nla_map = _attributes("CODEL", "UNSPEC", "TARGET", "LIMIT", "INTERVAL", "ECN", "CE_THRESHOLD")


class FqCodelOptions(nla):  # type: ignore[misc]
    nla_map = _attributes(
        "FQ_CODEL", "UNSPEC", "TARGET", "LIMIT", "INTERVAL", "ECN", "FLOWS", "QUANTUM", "CE_THRESHOLD",
        "DROP_BATCH_SIZE", "MEMORY_LIMIT",
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


OPTIONS = {"bfifo": FifoOptions, "codel": CodelOptions, "fq_codel": FqCodelOptions, "red": RedOptions}
"""By the kernel's name of the queue."""
