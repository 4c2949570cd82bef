"""RFC 6349, Framework for TCP Throughput Testing: its derivations and its three metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from emulator.analysis.tcp_path import NS

HEADERS_BYTES = 40
"""IPv4 and TCP without options, as the RFC counts."""
ETHERNET_BYTES = 38
T3_BYTES = 8
"""PPP 4, flags 2, CRC 2 (section 4.1.1)."""


def bdp_bits(rate_bps: int, rtt_ns: int) -> float:
    """Section 3.3.1: bottleneck bandwidth x RTT."""
    return rate_bps * rtt_ns / NS


def minimum_rwnd_bytes(rate_bps: int, rtt_ns: int) -> float:
    """Section 3.3.1: the receive window and send buffer below which TCP cannot fill the path."""
    return bdp_bits(rate_bps, rtt_ns) / 8


def window_bps(rwnd_bytes: int, rtt_ns: int) -> float:
    """Section 3.3.1: the throughput that a window smaller than the BDP allows."""
    return rwnd_bytes * 8 * NS / rtt_ns


def frames_per_s(rate_bps: int, mtu: int, overhead_bytes: int = ETHERNET_BYTES) -> int:
    """Section 4.1.1: the most whole frames that the physical line carries in a second."""
    return rate_bps // ((mtu + overhead_bytes) * 8)


def maximum_bps(
    rate_bps: int, mtu: int, overhead_bytes: int = ETHERNET_BYTES, headers_bytes: int = HEADERS_BYTES
) -> int:
    """Section 4.1.1: the maximum achievable TCP throughput."""
    return frames_per_s(rate_bps, mtu, overhead_bytes) * (mtu - headers_bytes) * 8


def ideal_transfer_s(size_bytes: int, achievable_bps: float) -> float:
    """Section 4.1.2: the duration of a transfer at the maximum achievable throughput."""
    return size_bytes * 8 / achievable_bps


def transfer_time_ratio(actual_s: float, ideal_s: float) -> float:
    """Section 4.1: 1 is ideal; 1.5 means that the transfer took 50 % longer."""
    return actual_s / ideal_s


def efficiency(transmitted_bytes: int, retransmitted_bytes: int) -> float:
    """Section 4.2: the share of transmitted bytes, originals and retransmissions, that were originals."""
    return (transmitted_bytes - retransmitted_bytes) / transmitted_bytes


def buffer_delay(mean_rtt_ns: float, baseline_rtt_ns: float) -> float:
    """Section 4.3: the growth of the RTT during the transfer, as a share of the baseline."""
    return (mean_rtt_ns - baseline_rtt_ns) / baseline_rtt_ns


class TcpTest(Struct, frozen=True):
    """One throughput test of section 3.3 and the inputs of its metrics. `name` says direction and connections."""

    name: str
    direction: str
    received_bytes: int
    duration_s: float
    transmitted_bytes: int
    retransmitted_bytes: int
    rtts_ns: tuple[int, ...]

    @property
    def bps(self) -> float:
        """The test's throughput."""
        return self.received_bytes * 8 / self.duration_s


class PathDirection(Struct, frozen=True):
    """One direction of the path: the rate of its bottleneck with link headers, and TCP's maximum throughput there."""

    bottleneck_bps: int
    achievable_bps: int


class Survey(Struct, frozen=True):
    """Everything that the procedure measured, in its order: path MTU, baseline RTT, bottleneck of each direction, then
    the transfers."""

    lane: str
    mtu: int
    baseline_rtt_ns: int
    directions: Mapping[str, PathDirection]
    transfers: tuple[TcpTest, ...]

    def metrics(self, transfer: TcpTest) -> tuple[float, float, float]:
        """(transfer time ratio, efficiency, buffer delay) of one test."""
        ideal_s = ideal_transfer_s(transfer.received_bytes, self.directions[transfer.direction].achievable_bps)
        mean_rtt_ns = mean(transfer.rtts_ns) if transfer.rtts_ns else self.baseline_rtt_ns
        return (
            transfer_time_ratio(transfer.duration_s, ideal_s),
            efficiency(transfer.transmitted_bytes, transfer.retransmitted_bytes),
            buffer_delay(mean_rtt_ns, self.baseline_rtt_ns),
        )


def mean(rtts_ns: Sequence[int]) -> float:
    """Section 4.3: the sum of the RTTs divided by their number."""
    return sum(rtts_ns) / len(rtts_ns)
