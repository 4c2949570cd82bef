"""Round-trip times with iputils' ping: argv and parser.

`-3` keeps three decimals of every line (without it, iputils rounds to three significant digits: "32.0 ms").
The first echo waits for ARP and is never counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from emulator.errors import MeasureError
from emulator.hosts.tools.process import ProgramHost

_REPLY = re.compile(r"icmp_seq=(\d+) .*?time=([\d.]+) ms")
_STAMP = re.compile(r"\[(\d+\.\d+)\] ")
_SENT = re.compile(r"(\d+) packets transmitted")
SEQUENCES = 1 << 16
"""ICMP counts echoes modulo this (RFC 792)."""
GRID_S, ANSWER_S = 0.2, 4
STAMPED_WAIT_S = 2
_PATIENCE_S = 30.0


def argv(address: str, count: int, precise: bool = True, patience: float = 1) -> list[str]:
    """A ping of `count` counted echoes, one every 0.2 s, after one that is not counted.

    Without any answer it waits longer than the longest round trip that a lane is tested with, and on a busy machine
    `patience` times as long.
    """
    every_digit, wait_s = ["-3"] if precise else [], f"{ANSWER_S * patience:.3g}"
    return ["ping", "-n", *every_digit, "-i", str(GRID_S), "-c", str(count + 1), "-W", wait_s, address]


def warm_up_argv(address: str) -> list[str]:
    """One echo there and back: on a lane longer than the interval several echoes would wait for ARP, not only the
    first."""
    return ["ping", "-q", "-c", "1", "-W", "10", address]


def endless_argv(address: str, interval_s: float) -> list[str]:
    """A ping that runs until it is stopped, one echo every `interval_s`."""
    return ["ping", "-n", "-i", str(interval_s), address]


def stamped_argv(address: str, count: int, interval_s: float, precise: bool = True) -> list[str]:
    """A ping of `count` counted echoes, one every `interval_s`, after one that is not counted; each line has its time.

    The kernel's tick limits how exactly ping keeps its interval, so it ends after the time that the echoes should take.
    """
    every_digit, longest_s = ["-3"] if precise else [], math.ceil((count + 1) * interval_s) + STAMPED_WAIT_S + 1
    ends = ["-c", str(count + 1), "-W", str(STAMPED_WAIT_S), "-w", str(longest_s)]
    return ["ping", "-n", "-D", *every_digit, "-i", f"{interval_s:g}", *ends, address]


def parse_stamped(line: str) -> tuple[int, int, int] | None:
    """The sequence number, the send time (ns since 1970, to the us) and the round trip of one line of `ping -D`; None
    for any other line, and for a duplicate echo."""
    stamp, reply = _STAMP.match(line), parse_reply(line)
    if not stamp or not reply or "DUP!" in line:
        return None
    return reply[0], round(Fraction(stamp[1]) * 10**9) - reply[1], reply[1]


def parse_reply(line: str) -> tuple[int, int] | None:
    """The sequence number and the round trip in ns of one line of ping; None for any other line."""
    reply = _REPLY.search(line)
    return (int(reply[1]), _ns(reply[2])) if reply else None


def echo_number(sequence: int, near: int) -> int:
    """The number of an echo of this sequence number, without the modulus: the one nearest to `near`."""
    return near + (sequence - near + SEQUENCES // 2) % SEQUENCES - SEQUENCES // 2


def _ns(ms: str) -> int:
    """Decimal milliseconds, of at most six decimals, in ns."""
    whole, _, decimals = ms.partition(".")
    return int(whole) * 1_000_000 + int(decimals.ljust(6, "0")[:6])


def echoes(host: ProgramHost, address: str, count: int, rtt_ns: int, precise: bool, patience: float) -> Ping:
    """Counted round trips from the host to the address, over a path of about `rtt_ns`. Raises MeasureError."""
    done = host.run(argv(address, count, precise, patience), longest_s(count, rtt_ns) * patience)
    return parse(done.stdout or done.stderr)


def longest_s(count: int, rtt_ns: int) -> float:
    """The time limit of a ping: its echoes, a few round trips, and time to start in a slow lab."""
    return (count + 1) * GRID_S + 10 * rtt_ns / 1e9 + 30


def is_precise(host: ProgramHost) -> bool:
    """Whether the host's ping knows `-3` (iputils 20231222 and later). Raises MissingError."""
    return host.run(["ping", "-3", "-V"], _PATIENCE_S).exit_code == 0


class Ping(Struct, frozen=True):
    """The counted round trips in ns in order, and the number of unanswered echoes."""

    rtts_ns: tuple[int, ...]
    lost: int


def sent(text: str) -> int | None:
    """How many echoes were sent, according to the summary; None for any other text."""
    found = _SENT.search(text)
    return int(found[1]) if found else None


def parse(text: str) -> Ping:
    """Parse the output of ping. Raises MeasureError without a summary, or without a reply after the first."""
    sent = _SENT.search(text)
    if not sent:
        words = text.strip().splitlines()[-1:] or ["nothing"]
        raise MeasureError(f"cannot parse the output of ping: {words[0]}")
    replies, number = dict[int, int](), 0
    for sequence, ms in _REPLY.findall(text):
        number = echo_number(int(sequence), number)
        replies.setdefault(number, _ns(ms))
    counted = [rtt for number, rtt in sorted(replies.items()) if number > 1]
    if not counted:
        raise MeasureError(f"none of {sent[1]} echoes was answered")
    return Ping(tuple(counted), int(sent[1]) - 1 - len(counted))


def quantile(sorted_values: Sequence[int], share: float) -> int:
    """The value at or below which `share` of the values lie (nearest rank)."""
    rank = max(1, -(-len(sorted_values) * round(share * 100) // 100))
    return sorted_values[rank - 1]
