"""What a bottleneck counts, and what the kernel can hold of it: sch_tbf, bfifo, codel, cake. Pure.

Sources: psched_l2t_ns of net/sched/sch_generic.c, tbf_dump of sch_tbf.c, codel_time_after of include/net/codel.h
(Linux 6.12).
"""

from __future__ import annotations

from emulator.model.impairment import Impairment
from emulator.units import format_duration, format_rate, format_size

TICK_NS = 64
"""A tick of the packet scheduler's clock (include/net/pkt_sched.h, PSCHED_SHIFT 6)."""

LONGEST_BURST_NS = (2**32 - 1) * TICK_NS
"""The longest time of a burst at the rate: sch_tbf tells it in 32 bits of ticks."""

MOST_BUFFER_BYTES = 2**32 - 1
"""The largest queue below a rate: its limit has 32 bits."""

MIN_BUFFER_NS = 1_000_000
"""The smallest default buffer, in time at the rate: any switch port has at least as much."""

LONGEST_CODEL_NS = (2**31 - 1) * 1024
"""The longest interval of CoDel, which is the RTT: it compares times as signed numbers of 32 bits, in 1024 ns."""

LONGEST_CAKE_NS = (2**32 - 1) * 1000
"""The longest interval of CAKE, which is the RTT: it has 32 bits of us."""

_LONGEST_RTT_NS = {"codel": LONGEST_CODEL_NS, "fq-codel": LONGEST_CODEL_NS, "cake": LONGEST_CAKE_NS}

ETHERNET_HEADER_BYTES = 14
"""What a qdisc counts on top of the MTU: the Ethernet header, neither FCS nor preamble."""

SMALLEST_FRAME_BYTES = 60
"""The smallest Ethernet frame as a qdisc counts it: 64 bytes without the FCS."""

BETWEEN_FRAMES_BYTES = 24
"""What each frame takes on an Ethernet wire besides what a qdisc counts: FCS, preamble and gap."""

BURST_FRAMES = 2
"""A burst has room for so many full-size packets at the least."""


def frame_bytes(mtu: int) -> int:
    """A full-size packet as a qdisc counts it."""
    return mtu + ETHERNET_HEADER_BYTES


def wire_bytes(size: int, overhead: int, *, atm: bool) -> int:
    """What a packet of `size` bytes counts as at the bottleneck (psched_l2t_ns)."""
    return -(-(size + overhead) // 48) * 53 if atm else size + overhead


def check(impairment: Impairment, mtu: int, rtt_ns: int) -> None:
    """Raise ValueError when the kernel cannot hold the bottleneck of one direction of a lane."""
    if impairment.rate_bps is None:
        return
    least_bps = least_rate_bps(impairment, mtu)
    if impairment.rate_bps < least_bps:
        rate, least = format_rate(impairment.rate_bps), format_rate(least_bps)
        raise ValueError(f"rate {rate} is below {least}, the lowest that the kernel's tbf has for an MTU of {mtu}")
    buffer_bytes = impairment.buffer.to_bytes(impairment.rate_bps, frame_bytes(mtu)) if impairment.buffer else 0
    if buffer_bytes > MOST_BUFFER_BYTES:
        most = format_size(MOST_BUFFER_BYTES)
        raise ValueError(f"a buffer of {format_size(buffer_bytes)} is above the kernel's {most}")
    longest_ns = _LONGEST_RTT_NS.get(impairment.aqm)
    if longest_ns is not None and rtt_ns > longest_ns:
        longest = format_duration(longest_ns // 10**9 * 10**9)
        raise ValueError(f"{impairment.aqm} takes an RTT of {longest} at most, not {format_duration(rtt_ns)}")


def least_rate_bps(impairment: Impairment, mtu: int) -> int:
    """The lowest rate at which the smallest burst is a time that the kernel can hold."""
    burst = wire_bytes(BURST_FRAMES * frame_bytes(mtu), impairment.overhead_bytes, atm=impairment.atm)
    return -(-burst * 10**9 // LONGEST_BURST_NS) * 8
