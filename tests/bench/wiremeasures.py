"""What is measured of a lane between the hosts `near` and `far`, whatever moves its frames; see wire.py."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import time
from pathlib import Path

from emulator.hosts.namespace import NamespaceHost
from emulator.kernel import engine_client, netns

MS = 10**6
PORT = 7000
STREAM, EVERY_S = 1000, 0.001
"""The numbered datagrams by which a delay is measured: a thousand, one a millisecond."""

SMALL_FRAMES, BATCH = 640_000, 64
SO_RCVBUFFORCE, SO_TIMESTAMPNS, SOL_PACKET, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 33, 35, 263, 23, 3


def cpu_s() -> tuple[float, float]:
    """CPU seconds that this machine has worked, and that others took from it (steal)."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(fields[:3]) + sum(fields[5:7])) / tick, fields[7] / tick


def engine_cpu_s() -> float:
    """CPU seconds that the engines have taken so far: no other machine's, for this one's /proc shows only ours."""
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat")]
    fields = [stat.rpartition(")")[2].split() for stat in stats if f"({engine_client.BINARY.name})" in stat]
    return sum(int(user) + int(system) for user, system in (f[11:13] for f in fields)) / os.sysconf("SC_CLK_TCK")


def timers_us(count: int = 300) -> list[float]:
    """By how much this machine's own timers are late, in us, sorted: what no datapath can better by sleeping alone."""
    late = []
    for _ in range(count):
        asked = time.monotonic_ns() + 5 * MS
        time.sleep(0.005)
        late.append((time.monotonic_ns() - asked) / 1e3)
    return sorted(late)


def tcp(streams: int, seconds: int) -> tuple[float, float]:
    """Gbit/s received, and CPU seconds per Gbit of both ends and all in between together."""
    with NamespaceHost("far").start(["iperf3", "-s", "-1"]) as server:
        while ":5201" not in NamespaceHost("far").run(["ss", "-Hltn"], 30).stdout:
            time.sleep(0.05)
        before, _ = cpu_s()
        argv = ["iperf3", "-c", "10.77.0.2", "-J", "-t", str(seconds), "-P", str(streams)]
        done = NamespaceHost("near").run(argv, 60).checked()
        spent = cpu_s()[0] - before
        server.wait(30)
    gbit = json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9
    return gbit, spent / (gbit * seconds)


class _Message(ctypes.Structure):
    """struct mmsghdr, of 64-bit Linux."""

    _fields_ = (
        ("name", ctypes.c_void_p), ("name_len", ctypes.c_uint32), ("iov", ctypes.c_void_p),
        ("iov_len", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_len", ctypes.c_size_t),
        ("flags", ctypes.c_int), ("len", ctypes.c_uint),
    )  # fmt: skip


def small_frames(port: str) -> tuple[float, float]:
    """Frames of 64 B a second that leave through the port, in Mpps, sent as fast as one thread can; and in how many a
    second of the engine's CPU time they result, in Mpps too: what it could do on a core of its own. 0 without one.
    """
    text = ctypes.create_string_buffer(b"x" * 22)
    parts = (ctypes.c_size_t * 2)(ctypes.addressof(text), 22)
    messages = (_Message * BATCH)(*[_Message(iov=ctypes.addressof(parts), iov_len=1) for _ in range(BATCH)])
    libc = ctypes.CDLL(None, use_errno=True)
    with netns.inside("lh-far"):
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with netns.inside("lh-near"):
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with here, there:
        # Nobody reads: it is only there so that no ICMP goes back.
        there.bind(("", PORT))
        here.connect(("10.77.0.2", PORT))
        for number in range(SMALL_FRAMES // BATCH):
            if number == SMALL_FRAMES // BATCH // 5:
                # From here on all is under way: a delay line is full.
                before, start, worked = sent_frames(port), time.monotonic(), engine_cpu_s()
            libc.sendmmsg(here.fileno(), messages, BATCH, 0)
        frames, took_s, worked_s = sent_frames(port) - before, time.monotonic() - start, engine_cpu_s() - worked
    return frames / took_s / 1e6, frames / worked_s / 1e6 if worked_s else 0.0


def sent_frames(port: str) -> int:
    """How many frames have left through a port."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[10]) for line in lines if line.strip().startswith(f"{port}:"))


def delays_us(port: str, asked_ns: int) -> list[float]:
    """By how much datagrams from near to far are later than asked, in us, sorted; both by the kernel's own stamps.

    From when the port at the hub has a frame until the far host's interface has it: neither the sender's way to the
    port nor the receiver's wake-up counts.
    """
    with netns.inside("lh-far"):
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with netns.inside("lh-near"):
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with here, there, tap:
        for one in (tap, there):
            one.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
            one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            one.settimeout(0.5)
        tap.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        tap.bind((port, ETH_P_ALL))
        there.bind(("", PORT))
        here.connect(("10.77.0.2", PORT))
        for number in range(STREAM):
            here.send(b"%06d" % number)
            time.sleep(EVERY_S)
        came, left = _stamps(tap, 42), _stamps(there, 0)
    return sorted((left[n] - came[n] - asked_ns) / 1e3 for n in left.keys() & came.keys() if n >= STREAM // 20)


def _stamps(there: socket.socket, headers: int) -> dict[int, int]:
    """When the kernel had each numbered datagram."""
    found = {}
    try:
        while True:
            data, extra, *_ = there.recvmsg(200, 100)
            number = data[headers : headers + 6]
            if number.isdigit() and (not headers or data[23] == socket.IPPROTO_UDP):
                seconds, rest = struct.unpack("qq", extra[0][2])
                found[int(number)] = seconds * 10**9 + rest
    except TimeoutError:
        return found
