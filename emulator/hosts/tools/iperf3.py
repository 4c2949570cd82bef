"""iperf3, the first workload: its arguments, its JSON, and the peculiarities of its counting.

Only the receiver's figures are used. The sender also counts data in its own send buffer (up to 148 MiB too much was
observed), and its intervals are quantized; the receiver counts what arrived.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from msgspec import Struct

from emulator.analysis.tcp_path import Interval
from emulator.analysis.transfer import Caveat, SenderSample, Transfer
from emulator.errors import MeasureError
from emulator.hosts.host import Host
from emulator.hosts.tools import listening
from emulator.hosts.tools.process import ProgramHost, Running
from emulator.hosts.tools.workload import Ends, Load

PORT = 5201
SETUP_ROUND_TRIPS = 20
"""Seconds for the control connection, parameters, streams and results, beside the test's duration."""
MOST_STREAMS, LONGEST_S = 128, 86_400
"""MAX_STREAMS and MAX_TIME in its iperf.h."""
BLOCK_SHARE = 0.1
"""The most of an interval that a block may be: larger blocks make the interval's rate random."""
_LARGEST_BLOCK, _SMALLEST_BLOCK = 2**20, 2**12
_PATIENCE_S = 60.0


class Iperf3(Struct, frozen=True):
    """TCP streams that send as much as they can for a given time."""

    kind: ClassVar[str] = "iperf3"

    def check(self, load: Load) -> None:
        """Raise ValueError when iperf3 would refuse the load."""
        if load.streams > MOST_STREAMS:
            raise ValueError(f"iperf3 allows at most {MOST_STREAMS} streams, not {load.streams}")
        if load.duration_s > LONGEST_S:
            raise ValueError(f"iperf3 runs for at most {LONGEST_S} s, not {load.duration_s}")

    def title(self, load: Load) -> str:
        """The number of streams."""
        return "1 stream" if load.streams == 1 else f"{load.streams} streams"

    def part(self, load: Load) -> str:
        """The number of streams, alone."""
        return str(load.streams)

    @contextmanager
    def start(self, ends: Ends, load: Load) -> Iterator[Streams]:
        """Start the server, then the client. Raises MissingError, MeasureError."""
        with (
            listening.server(ends.receiver, server_argv(load.interval_s), PORT),
            ends.sender.start(client_argv(ends.receiver_address, load)) as client,
        ):
            yield Streams(client, load)


class Streams:
    """A running iperf3 test."""

    port = PORT

    def __init__(self, client: Running, load: Load) -> None:
        self._client, self._load, self._text = client, load, ""
        # One connection is the control connection.
        self.connections = 1 + load.streams * (2 if load.both else 1)

    def is_running(self) -> bool:
        """Whether the client still runs."""
        return self._client.running()

    def wait(self) -> tuple[Transfer, ...]:
        """Wait for the client's result and parse it. Raises MeasureError with iperf3's own message."""
        self._text = self._client.wait(longest_s(self._load.duration_s, self._load.rtt_ns)).stdout
        ways = (False, True) if self._load.both else (False,)
        return tuple(parse(self._text, reverse=reverse) for reverse in ways)

    def raw(self) -> Any:
        """iperf3's own JSON."""
        return json.loads(self._text)


def server_argv(interval_s: float) -> list[str]:
    """The arguments of a server for one test, which sends its intervals to the client as JSON.

    After a long test a server is busy for seconds.
    """
    return ["iperf3", "-s", "-1", "-J", "-i", f"{interval_s:g}", "-p", str(PORT)]


def client_argv(address: str, load: Load) -> list[str]:
    """The arguments of a client that sends (or receives for both directions) in blocks of about 1 ms (4 KiB to 1 MiB).

    Both ends count whole blocks: large blocks cost less CPU, small ones keep a slow stream's intervals smooth.
    """
    block = max(_SMALLEST_BLOCK, min(_LARGEST_BLOCK, 1 << (int(load.expected_bytes_per_s) // 1000).bit_length()))
    algorithm = ["-C", load.congestion_control] if load.congestion_control else []
    # -Z sends without copying: half the CPU, the same bytes.
    return [
        *("iperf3", "-c", address, "-p", str(PORT), "-t", str(load.duration_s), "-P", str(load.streams)),
        *("-Z", "-l", str(block), "-i", f"{load.interval_s:g}", "-J", "--get-server-output"),
        *algorithm,
        *(["--bidir"] if load.both else []),
    ]


def longest_s(duration_s: int, rtt_ns: int) -> float:
    """The time limit of a client: its duration, the set-up's round trips, and a minute to drain queues."""
    return duration_s + SETUP_ROUND_TRIPS * rtt_ns / 1e9 + _PATIENCE_S


def parse(text: str, *, reverse: bool = False) -> Transfer:
    """Parse a client's JSON; `reverse` selects what the server sent in a bidirectional test.

    Raises MeasureError with iperf3's own message when the test failed.
    """
    report = _report(text)
    try:
        return _transfer(report, reverse=reverse)
    except (KeyError, TypeError, IndexError, ZeroDivisionError) as gone:
        raise MeasureError(f"iperf3's JSON lacks {gone}: 3.17 or newer is needed at both ends") from None


def _report(text: str) -> dict[str, Any]:
    try:
        report = json.loads(text)
    except ValueError:
        report = None
    if not isinstance(report, dict):
        raise MeasureError(f"iperf3 printed no JSON but {text.strip()[:200]!r}")
    if error := report.get("error"):
        raise MeasureError(f"iperf3: {error}")
    return report


def _transfer(report: dict[str, Any], *, reverse: bool) -> Transfer:
    way = "_bidir_reverse" if reverse else ""
    received, sent, asked = report["end"][f"sum_received{way}"], report["end"][f"sum_sent{way}"], report["start"]
    client, server = report, report["server_output_json"]
    sender, receiver = (server, client) if reverse else (client, server)
    cpu = report["end"]["cpu_utilization_percent"]
    used = (cpu["host_total"], cpu["remote_total"])
    intervals = _intervals(receiver, f"sum{way}")
    return Transfer(
        program="iperf3",
        tool=asked["version"],
        received_bytes=received["bytes"],
        received_s=received["seconds"],
        sent_bytes=sent["bytes"],
        duration_s=asked["test_start"]["duration"],
        intervals=intervals,
        retransmits=sent["retransmits"],
        sender_cpu_percent=used[reverse],
        receiver_cpu_percent=used[not reverse],
        # From 3.16 on each stream has its own thread.
        threads=asked["test_start"]["num_streams"],
        ramp=tuple(_sample([s for s in i["streams"] if s["sender"]]) for i in sender["intervals"]),
        caveats=_caveats(asked["test_start"], received["bytes"] / len(intervals)),
    )


def _caveats(asked: dict[str, Any], interval_bytes: float) -> tuple[Caveat, ...]:
    """Settings of iperf3 that falsify its own figures."""
    found = []
    if asked["omit"]:
        text = f"iperf3 omitted {asked['omit']:g} s on each end's own clock (-O): trim the receiver's intervals instead"
        found.append(Caveat("omit", text, fatal=True))
    if asked["blksize"] > BLOCK_SHARE * interval_bytes:
        share = f"{asked['blksize'] / interval_bytes:.0%}" if interval_bytes else "more than all"
        text = f"iperf3 counts in blocks of {share} of an interval: use smaller blocks (-l) or longer intervals (-i)"
        found.append(Caveat("quantised-intervals", text, fatal=False))
    return tuple(found)


def _intervals(receiver: dict[str, Any], sums: str) -> tuple[Interval, ...]:
    return tuple(Interval(i[sums]["start"], i[sums]["end"], i[sums]["bytes"]) for i in receiver["intervals"])


def _sample(streams: list[dict[str, Any]]) -> SenderSample:
    cwnd_bytes = sum(stream["snd_cwnd"] for stream in streams)
    rtt_us = round(sum(stream["rtt"] for stream in streams) / len(streams))
    return SenderSample(streams[0]["end"], cwnd_bytes, rtt_us * 1000)


class Datagrams(Struct, frozen=True):
    """UDP of `payload_bytes` a packet, offered at `rate_bps` of payload."""

    rate_bps: int
    payload_bytes: int
    duration_s: int
    interval_s: float

    def argv(self, address: str) -> list[str]:
        """The arguments of the client."""
        return [
            *("iperf3", "-c", address, "-p", str(PORT), "-u", "-b", str(self.rate_bps), "-l", str(self.payload_bytes)),
            *("-t", str(self.duration_s), "-i", f"{self.interval_s:g}", "-J", "--get-server-output"),
        ]

    def received_bytes_per_s(self, ends: Ends) -> float:
        """The received payload rate. Raises MeasureError."""
        with (
            listening.server(ends.receiver, server_argv(self.interval_s), PORT),
            ends.sender.start(self.argv(ends.receiver_address)) as client,
        ):
            text = client.wait(self.duration_s + _PATIENCE_S).stdout
        return received_rate(received_intervals(text))


def received_rate(intervals: Sequence[Interval]) -> float:
    """The mean rate in bytes/s while the queue was never empty: the first interval with data waits for the first
    packet, and in the last one the queue runs empty."""
    found = [one for one in intervals if one.bytes]
    full = found[1:-1] or found or intervals
    return sum(one.bytes for one in full) / sum(one.end_s - one.start_s for one in full)


def received_intervals(text: str) -> tuple[Interval, ...]:
    """The received bytes of each interval. Raises MeasureError."""
    try:
        found = _intervals(json.loads(text)["server_output_json"], "sum")
    except (ValueError, KeyError, TypeError):
        found = ()
    if not found:
        raise MeasureError(f"iperf3 printed no intervals but {text.strip()[:200]!r}")
    return found


class PathRate(Struct, frozen=True):
    """Several TCP streams for a short time, without their slow start; the far end may run any version of iperf3."""

    duration_s: int = 8
    omitted_s: int = 4
    streams: int = 4
    block_bytes: int = 32 * 1024
    """iperf3 counts whole blocks: with its own 128 KiB, one of each stream is a tenth of 8 s at 3 Mbit/s."""

    def server(self, host: Host) -> AbstractContextManager[object]:
        """The arguments of the far end's server, for one test."""
        return listening.server(host, server_argv(1), PORT)

    def received_bps(self, end: ProgramHost, address: str, *, back: bool) -> float:
        """The payload rate to the address, or with `back` from it. Raises MeasureError."""
        argv = ["iperf3", "-c", address, "-p", str(PORT), "-t", str(self.duration_s), "-O", str(self.omitted_s)]
        argv += ["-P", str(self.streams), "-l", str(self.block_bytes), "-J", *(["-R"] if back else [])]
        return received_bps(end.run(argv, self.duration_s + self.omitted_s + _PATIENCE_S).stdout)


def received_bps(text: str) -> float:
    """The received payload in bit/s without the omitted seconds; understands any version of iperf3.

    Raises MeasureError with iperf3's own message.
    """
    try:
        report = json.loads(text)
        if error := report.get("error"):
            raise MeasureError(f"iperf3: {error}")
        return float(report["end"]["sum_received"]["bits_per_second"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MeasureError(f"iperf3 printed no rate but {text.strip()[:200]!r}") from None


class Background(Struct, frozen=True):
    """A small steady TCP stream that runs until it is stopped, on a port next to that of the cells."""

    rate: str
    """The rate in the form of iperf3's -b: 3M is 3 Mbit/s."""

    port: ClassVar[int] = PORT + 1

    @staticmethod
    def start_server(host: Host) -> Running:
        """The arguments of the receiving end."""
        return host.start(["iperf3", "-s", "-p", str(Background.port), "-i", "0"])

    def start(self, host: Host, address: str) -> Running:
        """The arguments of the sending end.

        Small blocks keep the traffic even. A check every 20 ms costs less CPU than one for each block.
        """
        evenly = ("-l", "16K", "--pacing-timer", "20000", "-i", "0")
        return host.start([
            "iperf3", "-c", address, "-p", str(self.port), "-t", str(LONGEST_S), "-b", self.rate, *evenly,
        ])  # fmt: skip
