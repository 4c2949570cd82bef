"""Throughput by iperf3: argv and parser of `-J --get-server-output`. Only the receiver's figures are used.

What the sender counts also sits in its own send buffer (up to 148 MiB too high has been seen), and its intervals are
quantised; the receiver's are what arrived.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from emulator.analysis.tcp_path import Interval
from emulator.errors import MeasureError

PORT = 5201
SETUP_ROUND_TRIPS = 20
"""Control connection, parameters, streams, results: what a test takes beside its duration."""
_LARGEST_BLOCK, _SMALLEST_BLOCK = 2**20, 2**12


@dataclass(frozen=True)
class Iperf3Result:
    """One iperf3 test, all streams together, as the receiver saw it; `retransmits` and `ramp` are the sender's.

    `ramp` is (end in s, all congestion windows together in bytes, mean RTT in us) of every interval. `omit_s` is what
    iperf3 left out at the start, `block_bytes` what it counts in.
    """

    received_bytes: int
    received_s: float
    intervals: tuple[Interval, ...]
    sent_bytes: int
    retransmits: int
    congestion_control: str
    version: str
    sender_cpu_percent: float
    receiver_cpu_percent: float
    duration_s: float
    omit_s: float
    block_bytes: int
    ramp: tuple[tuple[float, int, int], ...]


def server_argv(interval_s: float) -> list[str]:
    """A server for one test, whose intervals go to the client as JSON.

    A server that has done a long test is busy for seconds after it.
    """
    return ["iperf3", "-s", "-1", "-J", "-i", f"{interval_s:g}", "-p", str(PORT)]


def client_argv(
    address: str,
    duration_s: int,
    streams: int,
    congestion_control: str | None,
    expected_bytes_per_s: float,
    interval_s: float,
    *,
    both: bool = False,
) -> list[str]:
    """A client that sends for `duration_s`, in blocks of about a millisecond (4 KiB to 1 MiB); `both`: and receives.

    Both ends count whole blocks: large ones cost less CPU, small ones keep a slow stream's intervals smooth.
    """
    block = max(_SMALLEST_BLOCK, min(_LARGEST_BLOCK, 1 << (int(expected_bytes_per_s) // 1000).bit_length()))
    algorithm = ["-C", congestion_control] if congestion_control else []
    ways = ["--bidir"] if both else []
    # -Z sends without copying: half the CPU, the same bytes.
    return [
        *("iperf3", "-c", address, "-p", str(PORT), "-t", str(duration_s), "-P", str(streams)),
        *("-Z", "-l", str(block), "-i", f"{interval_s:g}", "-J", "--get-server-output"),
        *algorithm,
        *ways,
    ]


def udp_argv(address: str, duration_s: int, rate_bps: int, payload_bytes: int, interval_s: float) -> list[str]:
    """A client that sends datagrams of `payload_bytes` at `rate_bps` of payload."""
    return [
        *("iperf3", "-c", address, "-p", str(PORT), "-u", "-b", str(rate_bps), "-l", str(payload_bytes)),
        *("-t", str(duration_s), "-i", f"{interval_s:g}", "-J", "--get-server-output"),
    ]


def received_intervals(text: str) -> tuple[Interval, ...]:
    """What arrived, interval by interval. Raises MeasureError."""
    try:
        report = json.loads(text)
        return _intervals(report["server_output_json"], "sum")
    except (ValueError, KeyError, TypeError):
        raise MeasureError(f"iperf3 answered no intervals but {text.strip()[:200]!r}") from None


def received_bps(text: str) -> float:
    """What arrived of payload, in bit/s, without the seconds that were omitted; from any version of iperf3.

    Raises MeasureError with iperf3's own words.
    """
    try:
        report = json.loads(text)
        if error := report.get("error"):
            raise MeasureError(f"iperf3: {error}")
        return float(report["end"]["sum_received"]["bits_per_second"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MeasureError(f"iperf3 answered no rate but {text.strip()[:200]!r}") from None


def longest_s(duration_s: int, rtt_ns: int) -> float:
    """When to give up on a client: its duration, the set-up's round trips, and a minute for queues to drain."""
    return duration_s + SETUP_ROUND_TRIPS * rtt_ns / 1e9 + 60


def parse(text: str, *, reverse: bool = False) -> Iperf3Result:
    """Read a client's JSON; `reverse`: what the server sent, of a test both ways.

    Raises MeasureError with iperf3's own words when the test failed.
    """
    try:
        report = json.loads(text)
    except ValueError:
        raise MeasureError(f"iperf3 answered no JSON but {text.strip()[:200]!r}") from None
    if error := report.get("error"):
        raise MeasureError(f"iperf3: {error}")
    try:
        return _run(report, reverse=reverse)
    except (KeyError, TypeError, ZeroDivisionError) as gone:
        raise MeasureError(f"iperf3's JSON lacks {gone}: 3.17 or newer is needed at both ends") from None


def _run(report: dict[str, Any], *, reverse: bool) -> Iperf3Result:
    way = "_bidir_reverse" if reverse else ""
    received, sent = report["end"][f"sum_received{way}"], report["end"][f"sum_sent{way}"]
    client, server = report, report["server_output_json"]
    sender, receiver = (server, client) if reverse else (client, server)
    cpu = report["end"]["cpu_utilization_percent"]
    used = (cpu["host_total"], cpu["remote_total"])
    return Iperf3Result(
        received_bytes=received["bytes"],
        received_s=received["seconds"],
        intervals=_intervals(receiver, f"sum{way}"),
        sent_bytes=sent["bytes"],
        retransmits=sent["retransmits"],
        congestion_control=report["end"]["sender_tcp_congestion"],
        version=report["start"]["version"],
        sender_cpu_percent=used[reverse],
        receiver_cpu_percent=used[not reverse],
        duration_s=report["start"]["test_start"]["duration"],
        omit_s=report["start"]["test_start"]["omit"],
        block_bytes=report["start"]["test_start"]["blksize"],
        ramp=tuple(_moment([s for s in i["streams"] if s["sender"]]) for i in sender["intervals"]),
    )


def _intervals(receiver: dict[str, Any], sums: str) -> tuple[Interval, ...]:
    return tuple(Interval(i[sums]["start"], i[sums]["end"], i[sums]["bytes"]) for i in receiver["intervals"])


def _moment(streams: list[dict[str, Any]]) -> tuple[float, int, int]:
    cwnd_bytes = sum(stream["snd_cwnd"] for stream in streams)
    return streams[0]["end"], cwnd_bytes, round(sum(stream["rtt"] for stream in streams) / len(streams))
