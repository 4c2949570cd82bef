"""netem and tbf on the wire: the attributes that pyroute2's own plugins lack, both ways.

pyroute2's netem cannot set a rate, ns delays or a seed, and ignores unknown keywords silently; its tbf has no 64-bit
rate. Layouts: include/uapi/linux/pkt_sched.h. This codec sends every attribute every time: netem_change() keeps
attributes that a message omits, and every message resets `limit`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import common, plugins

from emulator.kernel import codec_aqm, codec_flower
from emulator.model import jitter_distribution
from emulator.plan.qdisc_values import Netem, Shaper
from emulator.plan.tbf_burst import burst_from_ticks, burst_ticks

U32 = 2**32 - 1
Attributes = dict[str, Any]


ATM = 2
"""TC_LINKLAYER_ATM; 0, "unaware", stands for all that has no cells."""


def encode_netem(n: Netem, *, reseed: bool = True) -> Attributes:
    """The message body. The u32 delays are in 64 ns ticks and overridden by the 64-bit attributes.

    A seed restarts the random numbers, even if it is the same; without `reseed` they continue.
    """
    slot = dict(zip(_SLOT, n.slot, strict=True))
    attrs: list[list[object]] = [
        ["TCA_NETEM_CORR", {"delay_corr": n.delay_corr, "loss_corr": n.loss_corr, "dup_corr": n.duplicate_corr}],
        ["TCA_NETEM_REORDER", {"prob_reorder": n.reorder_p32, "corr_reorder": n.reorder_corr}],
        ["TCA_NETEM_CORRUPT", {"prob_corrupt": n.corrupt_p32, "corr_corrupt": n.corrupt_corr}],
        [
            "TCA_NETEM_RATE",
            {
                "rate": min(U32, n.rate_bytes_per_s),
                "packet_overhead": n.packet_overhead,
                "cell_size": n.cell_size,
                "cell_overhead": n.cell_overhead,
            },
        ],
        ["TCA_NETEM_RATE64", n.rate_bytes_per_s],
        ["TCA_NETEM_LATENCY64", n.delay_ns],
        ["TCA_NETEM_JITTER64", n.jitter_ns],
        ["TCA_NETEM_ECN", int(n.ecn)],
        ["TCA_NETEM_SLOT", slot],
    ]
    if n.seed is not None and reseed:
        attrs.append(["TCA_NETEM_PRNG_SEED", n.seed])
    if n.distribution:
        attrs.append(["TCA_NETEM_DELAY_DIST", jitter_distribution.pack(n.distribution)])
    for kind, names, model in (("NETEM_LOSS_GE", _GE, n.gemodel), ("NETEM_LOSS_GI", _GI, n.four_state)):
        if model:
            attrs.append(["TCA_NETEM_LOSS", {"attrs": [[kind, dict(zip(names, model, strict=True))]]}])
    return {
        "delay": min(U32, n.delay_ns >> 6),
        "jitter": min(U32, n.jitter_ns >> 6),
        "limit": n.limit,
        "loss": n.loss_p32,
        "gap": n.gap,
        "duplicate": n.duplicate_p32,
        "attrs": attrs,
    }


def decode_netem(o: Any) -> Netem:
    """A dumped netem in full, so that a setting of somebody else's shows as a difference."""
    # Its attributes as a dict: `get_attr` looks through all of them for each, which takes four times as long.
    said = dict(o["attrs"])
    structs = ("RATE", "CORR", "SLOT", "REORDER", "CORRUPT")
    rate, corr, slot, reorder, corrupt = (_numbers(said.get(f"TCA_NETEM_{name}")) for name in structs)
    loss = said.get("TCA_NETEM_LOSS")
    ge, gi = (loss.get_attr(f"NETEM_LOSS_{kind}") if loss else None for kind in ("GE", "GI"))
    return Netem(
        delay_ns=said.get("TCA_NETEM_LATENCY64", 0),
        jitter_ns=said.get("TCA_NETEM_JITTER64", 0),
        limit=o["limit"],
        rate_bytes_per_s=said.get("TCA_NETEM_RATE64") or rate.get("rate", 0),
        loss_p32=o["loss"],
        duplicate_p32=o["duplicate"],
        reorder_p32=reorder.get("prob_reorder", 0),
        corrupt_p32=corrupt.get("prob_corrupt", 0),
        gap=o["gap"],
        delay_corr=corr.get("delay_corr", 0),
        loss_corr=corr.get("loss_corr", 0),
        duplicate_corr=corr.get("dup_corr", 0),
        reorder_corr=reorder.get("corr_reorder", 0),
        corrupt_corr=corrupt.get("corr_corrupt", 0),
        packet_overhead=rate.get("packet_overhead", 0),
        cell_size=rate.get("cell_size", 0),
        cell_overhead=rate.get("cell_overhead", 0),
        ecn=bool(said.get("TCA_NETEM_ECN")),
        slot=(
            slot.get("min_delay", 0),
            slot.get("max_delay", 0),
            slot.get("max_packets", 0),
            slot.get("max_bytes", 0),
            slot.get("dist_delay", 0),
            slot.get("dist_jitter", 0),
        ),
        gemodel=(ge["p"], ge["r"], ge["h"], ge["k1"]) if ge else None,
        four_state=(gi["p13"], gi["p31"], gi["p32"], gi["p23"], gi["p14"]) if gi else None,
        seed=said.get("TCA_NETEM_PRNG_SEED"),
        distribution=jitter_distribution.from_fingerprint(rate.get("cell_overhead", 0)),
    )


def _numbers(struct: Any) -> dict[str, int]:
    """The fields of a struct in a dump; none of one that is not there."""
    return {name: struct[name] for name, _ in struct.fields} if struct else {}


def encode_shaper(s: Shaper) -> Attributes:
    """TCA_TBF_BURST gives the burst in bytes; a kernel without it reads `buffer` in ticks."""
    parms = {
        "rate": min(U32, s.rate_bytes_per_s),
        "limit": s.limit_bytes,
        "buffer": burst_ticks(s.rate_bytes_per_s, s.burst_wire_bytes),
        "overhead": s.overhead_bytes,
        "linklayer": ATM if s.atm else 0,
    }
    attrs: list[list[object]] = [["TCA_TBF_PARMS", parms], ["TCA_TBF_BURST", s.burst_bytes]]
    if s.rate_bytes_per_s > U32:
        attrs.append(["TCA_TBF_RATE64", s.rate_bytes_per_s])
    return {"attrs": attrs}


def decode_shaper(o: Any) -> Shaper:
    """A dumped tbf; the kernel returns the burst in ticks, and this converts it to the canonical number of bytes."""
    parms = o.get_attr("TCA_TBF_PARMS")
    rate = o.get_attr("TCA_TBF_RATE64") or parms["rate"]
    overhead, atm = parms["overhead"], parms["linklayer"] == ATM
    return Shaper(rate, burst_from_ticks(rate, parms["buffer"], overhead, atm=atm), parms["limit"], overhead, atm)


_GE = ("p", "r", "h", "k1")
_GI = ("p13", "p31", "p32", "p23", "p14")
"""Netem.four_state's order, which is the user's; the struct's is p13, p31, p32, p14, p23."""

_SLOT = ("min_delay", "max_delay", "max_packets", "max_bytes", "dist_delay", "dist_jitter")


class NetemOptions(nla):  # type: ignore[misc]
    """struct tc_netem_qopt and its attributes."""

    nla_map = (
        ("TCA_NETEM_UNSPEC", "none"),
        ("TCA_NETEM_CORR", "netem_corr"),
        ("TCA_NETEM_DELAY_DIST", "cdata"),
        ("TCA_NETEM_REORDER", "netem_reorder"),
        ("TCA_NETEM_CORRUPT", "netem_corrupt"),
        ("TCA_NETEM_LOSS", "netem_loss"),
        ("TCA_NETEM_RATE", "netem_rate"),
        ("TCA_NETEM_ECN", "uint32"),
        ("TCA_NETEM_RATE64", "uint64"),
        ("TCA_NETEM_PAD", "hex"),
        ("TCA_NETEM_LATENCY64", "int64"),
        ("TCA_NETEM_JITTER64", "int64"),
        ("TCA_NETEM_SLOT", "netem_slot"),
        ("TCA_NETEM_SLOT_DIST", "cdata"),
        ("TCA_NETEM_PRNG_SEED", "uint64"),
    )
    fields = tuple((name, "I") for name in ("delay", "limit", "loss", "gap", "duplicate", "jitter"))

    class netem_corr(nla):  # type: ignore[misc]  # noqa: N801 (pyroute2 finds it by this name)
        fields = (("delay_corr", "I"), ("loss_corr", "I"), ("dup_corr", "I"))

    class netem_reorder(nla):  # type: ignore[misc]  # noqa: N801
        fields = (("prob_reorder", "I"), ("corr_reorder", "I"))

    class netem_corrupt(nla):  # type: ignore[misc]  # noqa: N801
        fields = (("prob_corrupt", "I"), ("corr_corrupt", "I"))

    class netem_rate(nla):  # type: ignore[misc]  # noqa: N801
        fields = (("rate", "I"), ("packet_overhead", "i"), ("cell_size", "I"), ("cell_overhead", "i"))

    class netem_slot(nla):  # type: ignore[misc]  # noqa: N801
        fields = tuple(zip(_SLOT, "qqiiqq", strict=True))

    class netem_loss(nla):  # type: ignore[misc]  # noqa: N801
        nla_map = (("NETEM_LOSS_UNSPEC", "none"), ("NETEM_LOSS_GI", "gi"), ("NETEM_LOSS_GE", "ge"))

        class ge(nla):  # type: ignore[misc]  # noqa: N801
            fields = tuple((name, "I") for name in _GE)

        class gi(nla):  # type: ignore[misc]  # noqa: N801
            fields = tuple((name, "I") for name in ("p13", "p31", "p32", "p14", "p23"))


class TbfOptions(nla):  # type: ignore[misc]
    """struct tc_tbf_qopt and its attributes."""

    nla_map = (
        ("TCA_TBF_UNSPEC", "none"),
        ("TCA_TBF_PARMS", "tbf_parms"),
        ("TCA_TBF_RTAB", "hex"),
        ("TCA_TBF_PTAB", "hex"),
        ("TCA_TBF_RATE64", "uint64"),
        ("TCA_TBF_PRATE64", "uint64"),
        ("TCA_TBF_BURST", "uint32"),
    )

    class tbf_parms(nla):  # type: ignore[misc]  # noqa: N801
        fields = (
            ("cell_log", "B"), ("linklayer", "B"), ("overhead", "H"), ("cell_align", "h"), ("mpu", "H"), ("rate", "I"),
            ("peak_cell_log", "B"), ("peak_linklayer", "B"), ("peak_overhead", "H"), ("peak_cell_align", "h"),
            ("peak_mpu", "H"), ("peak", "I"), ("limit", "I"), ("buffer", "I"), ("mtu", "I"),
        )  # fmt: skip


def register() -> None:
    """Replace pyroute2's own plugins, once per process."""
    for name, options in (
        ("netem", NetemOptions),
        ("tbf", TbfOptions),
        *codec_aqm.OPTIONS.items(),
        *codec_flower.OPTIONS.items(),
    ):
        plugin = ModuleType(f"{__name__}.{name}")
        plugin.options = options  # type: ignore[attr-defined]
        plugin.parent = TC_H_ROOT  # type: ignore[attr-defined]
        plugin.stats2 = common.stats2  # type: ignore[attr-defined]
        plugin.get_parameters = lambda keywords: keywords["body"]  # type: ignore[attr-defined]
        sys.modules[plugin.__name__] = plugin
        plugins[name] = plugin
