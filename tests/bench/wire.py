"""The wire engine against the bare bridge, in interleaved pairs; by hand, as root, on a quiet machine.

    unshare --net --mount --pid --fork --kill-child --mount-proc sh -c \
        'mount -t tmpfs run /run && .venv/bin/python tests/bench/wire.py'

Prints medians and ranges: TCP of 1 and 4 streams (Gbit/s), frames of 64 B a second, CPU seconds per Gbit of both ends
and the engine together, and by how much a 16 ms direction is later than asked. Steal is printed beside, for it is what
shared machines add.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import struct
import threading
import time
from pathlib import Path

from emulator import ops
from emulator.appliance import Appliance
from emulator.hosts.namespace import NamespaceHost
from emulator.kernel import netns
from emulator.kernel.netlink import NetlinkKernel
from emulator.model import Impairment, Lane, Topology

PAIRS, SECONDS, MS = 3, 3, 10**6
WIDE = "4096 1048576 268435456"


def cpu_s() -> tuple[float, float]:
    """CPU seconds that this machine has worked, and that others took from it (steal)."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(fields[:3]) + sum(fields[5:7])) / tick, fields[7] / tick


def tcp(streams: int) -> tuple[float, float]:
    """Gbit/s received, and CPU seconds per Gbit."""
    with NamespaceHost("far").start(["iperf3", "-s", "-1"]) as server:
        time.sleep(0.3)
        before, _ = cpu_s()
        argv = ["iperf3", "-c", "10.77.0.2", "-J", "-t", str(SECONDS), "-P", str(streams)]
        done = NamespaceHost("near").run(argv, 60).checked()
        spent = cpu_s()[0] - before
        server.wait(30)
    gbit = json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9
    return gbit, spent / (gbit * SECONDS)


def small_frames() -> float:
    """Frames of 64 bytes a second that arrive, in Mpps: sent as fast as one thread can."""
    count, got = 200_000, [0]
    with netns.inside("lh-far"):
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with netns.inside("lh-near"):
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with here, there:
        there.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
        there.bind(("", 7000))
        there.settimeout(1)
        here.connect(("10.77.0.2", 7000))

        def receive() -> None:
            try:
                while True:
                    there.recv(100)
                    got[0] += 1
            except TimeoutError:
                return

        thread = threading.Thread(target=receive)
        thread.start()
        start = time.monotonic()
        for _ in range(count):
            here.send(b"x" * 22)
        took = time.monotonic() - start
        thread.join()
    return got[0] / took / 1e6


def lateness_us() -> list[float]:
    """By how much datagrams are later than 16 ms one way, by the kernel's stamp at the receiver, in us, sorted."""
    late = []
    with netns.inside("lh-far"):
        there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with netns.inside("lh-near"):
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with here, there:
        there.setsockopt(socket.SOL_SOCKET, 35, 1)
        there.bind(("", 7000))
        there.settimeout(5)
        here.connect(("10.77.0.2", 7000))
        for number in range(300):
            sent = time.time_ns()
            here.send(struct.pack("Q", number))
            _, extra, *_ = there.recvmsg(100, 100)
            seconds, rest = struct.unpack("qq", extra[0][2])
            late.append((seconds * 10**9 + rest - sent - 16 * MS) / 1e3)
    return sorted(late[1:])


def topology(delay_ns: int) -> Topology:
    return Topology("bench", "near", (Lane("far", Impairment(delay_ns), Impairment(delay_ns)),), datapath="wire")


def bare(kernel: NetlinkKernel) -> None:
    """The lane's own bridge in the place of its engine."""
    kernel.apply(ops.StopWire("lh-far"))
    kernel.apply(ops.WireBridge("lh-far", up=True))


def show(found: dict[str, list[float]]) -> None:
    for name, values in found.items():
        print(f"{name:36} {statistics.median(values):8.3f}   ({min(values):.3f} to {max(values):.3f})", flush=True)


def main() -> None:
    kernel, found, (_, steal) = NetlinkKernel(), dict[str, list[float]](), cpu_s()
    appliance = Appliance(kernel, Path("/run/state"))
    appliance.up(topology(0))
    for host in ("near", "far"):
        for sysctl in ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"):
            NamespaceHost(host).write_sysctl(sysctl, WIDE)
    for _ in range(PAIRS):
        for path in ("bare bridge", "engine 0 ms", "engine 16 ms"):
            if path == "bare bridge":
                bare(kernel)
            else:
                appliance.up(topology(16 * MS if "16" in path else 0))
            for streams in (1, 4):
                gbit, per_gbit = tcp(streams)
                found.setdefault(f"{path}, TCP {streams}, Gbit/s", []).append(gbit)
                found.setdefault(f"{path}, TCP {streams}, CPU s/Gbit", []).append(per_gbit)
            found.setdefault(f"{path}, 64 B, Mpps", []).append(small_frames())
        late = lateness_us()
        for share in (50, 90, 99):
            found.setdefault(f"engine 16 ms, error p{share}, us", []).append(late[len(late) * share // 100])
    show(found)
    print(
        f"steal {cpu_s()[1] - steal:.2f} s, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, {os.uname().release}"
    )
    appliance.down()


if __name__ == "__main__":
    main()
