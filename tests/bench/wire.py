"""The wire engine against the bare bridge and vde2's wirefilter, in interleaved rounds; by hand, as root, when quiet.

It makes namespaces of its own and leaves nothing behind. Prints the table of emulator/docs/engine.md: medians and
ranges of TCP with 1 and 4 streams, frames of 64 B, CPU seconds per Gbit, the delay added at 0 ms, and the error at
16 ms; what is lost at 10 Gbit/s each way over 346 ms, and the most that loses nothing; with the machine named, its
steal, and how late its own timers were in the same run. Without wirefilter (Debian's vde2) it has no column.
Takes three minutes with three rounds of 4 s; with --far, which measures the 346 ms alone, half a minute.

Example:
  sudo .venv/bin/python tests/bench/wire.py 3 4
  sudo .venv/bin/python tests/bench/wire.py --far
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helped import parser
from support.superframe_traffic import lossless
from wiremeasures import MS, cpu_s, delays_us, small_frames, tcp, timers_us

from emulator.control.appliance import Appliance
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools import process
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology
from emulator.plan import engine_ops, ops

OWN = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
WIDE = "4096 1048576 268435456"
BARE, NONE, LINE, PEER = "bare bridge", "engine, 0 ms", "engine, 16 ms", "wirefilter, 0 ms"
Found = dict[tuple[str, str], list[float]]


def topology(delay_ns: int) -> Topology:
    return Topology("bench", "near", (Lane("far", Impairment(delay_ns), Impairment(delay_ns)),), datapath="wire")


def sh(*commands: str) -> None:
    for command in commands:
        process.run(command.split(), 30).checked()


@contextmanager
def path(name: str, appliance: Appliance, kernel: NetlinkKernel) -> Iterator[None]:
    """Frames of the lane take this path for the time of a block."""
    appliance.up(topology(16 * MS if name == LINE else 0))
    if name in (BARE, PEER):
        kernel.apply(engine_ops.StopWire("lh-far"))
    if name == BARE:
        # The lane's own bridge, in the place of its engine.
        kernel.apply(ops.WireBridge("lh-far", up=True))
    if name != PEER:
        yield
        return
    with wirefilter():
        yield


@contextmanager
def wirefilter() -> Iterator[None]:
    """Two switches of vde2, a tap and a bridge to a port for each, and a wirefilter in between."""
    folder, programs = Path(tempfile.mkdtemp(dir="/run")), []
    for end, port in (("a", "lhh-far"), ("b", "lhs-far")):
        programs.append(subprocess.Popen(["vde_switch", "-s", folder / end, "-t", f"tap-{end}"], stdin=subprocess.PIPE))
        while not (folder / end / "ctl").exists() or not Path(f"/proc/sys/net/ipv4/conf/tap-{end}").exists():
            pass
        sh(f"ip link add br-{end} type bridge", f"ip link set tap-{end} master br-{end}", f"ip link set tap-{end} up")
        sh(f"ip link set {port} nomaster", f"ip link set {port} master br-{end}", f"ip link set br-{end} up")
    programs.append(subprocess.Popen(["wirefilter", "-v", f"{folder}/a:{folder}/b"], stdin=subprocess.PIPE))
    try:
        yield
    finally:
        for program in reversed(programs):
            program.kill()
            program.wait()
        for end, port in (("a", "lhh-far"), ("b", "lhs-far")):
            sh(f"ip link del br-{end}", f"ip link set {port} master lh-far")


def measure(name: str, seconds: int, found: Found) -> None:
    for streams in (1, 4):
        gbit, per_gbit = tcp(streams, seconds)
        found.setdefault((f"TCP, {streams} stream{'s' * (streams > 1)}, Gbit/s", name), []).append(gbit)
        found.setdefault((f"CPU s per Gbit, {streams} stream{'s' * (streams > 1)}", name), []).append(per_gbit)
    for what, mpps in zip(("sent", "a core of the engine's"), small_frames("lhs-far"), strict=True):
        found.setdefault((f"frames of 64 B, Mpps {what}", name), []).append(mpps)
    late = delays_us("lhh-far", 16 * MS if name == LINE else 0)
    for percent in (50, 90, 99):
        found.setdefault((f"later than asked, p{percent}, us", name), []).append(late[len(late) * percent // 100])


def table(found: Found, names: list[str]) -> Iterator[str]:
    yield "| median (range) | " + " | ".join(names) + " |"
    yield "| --- |" + " --- |" * len(names)
    for what in dict.fromkeys(what for what, _ in found):
        digits = 4 if "CPU" in what else 2
        cells = []
        for name in names:
            values = found[what, name]
            least, most = (f"{value:.{digits}f}" for value in (min(values), max(values)))
            cells.append(f"{statistics.median(values):.{digits}f} ({least} to {most})")
        yield f"| {what} | " + " | ".join(cells) + " |"


def far_and_fast(seconds: int) -> Iterator[str]:
    """346 ms and 10 Gbit/s each way; and, where that is more than the machine can do, the most that loses nothing."""
    for bps in range(10**10, 0, -(10**9)):
        (busy, _), start = cpu_s(), os.times().elapsed
        far = lossless("lh-far", "near", "far", bps, lambda passed_s: passed_s < seconds)
        share = (cpu_s()[0] - busy) / (os.times().elapsed - start) / (os.cpu_count() or 1)
        of_them = f"{far['lost']} of {far['sent']} super-frames lost, p99 {far['late_p99_ns'] / 1e6:.2f} ms late"
        yield f"346 ms each way: {far['gbit']:.1f} Gbit/s each way, {of_them}; the processors were {share:.0%} busy."
        if not far["lost"]:
            return


def machine(steal_s: float, took_s: float, timers: list[float]) -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    late = ", ".join(f"p{p} {timers[len(timers) * p // 100]:.0f}" for p in (50, 90, 99))
    return (
        f"{os.cpu_count()} x {model}, Linux {os.uname().release}; load {os.getloadavg()[0]:.1f}, steal "
        f"{steal_s / took_s:.1%} of a CPU; its own timers (5 ms) are late by {late} us."
    )


def main(rounds: int, seconds: int, *, far: bool) -> None:
    names = [BARE, NONE, LINE] + ([PEER] if shutil.which("wirefilter") else [])
    kernel, found, (_, steal), start = NetlinkKernel(), Found(), cpu_s(), os.times().elapsed
    appliance = Appliance(kernel, Path("/run/state"))
    appliance.up(topology(0))
    for host in ("near", "far"):
        for sysctl in ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"):
            NamespaceHost(host).write_sysctl(sysctl, WIDE)
    timers = timers_us()
    for done in range(0 if far else rounds):
        for name in names:
            with path(name, appliance, kernel):
                measure(name, seconds, found)
        print(f"round {done + 1} of {rounds}", file=sys.stderr, flush=True)
    appliance.up(topology(346 * MS))
    print(
        *([] if far else [*table(found, names), ""]),
        *far_and_fast(seconds),
        machine(cpu_s()[1] - steal, os.times().elapsed - start, timers),
        sep="\n",
    )
    appliance.down()


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("rounds", nargs="?", type=int, default=3, help="of every way that frames may take; 3 unless said")
    said.add_argument("seconds", nargs="?", type=int, default=4, help="of every TCP test; 4 unless said")
    said.add_argument("--far", action="store_true", help="only what 346 ms each way carry")
    asked = said.parse_args()
    if os.environ.get("LONGHAUL_BENCH_INSIDE"):
        main(asked.rounds, asked.seconds, far=asked.far)
    else:
        script = 'mount -t tmpfs run /run && ip link set lo up && LONGHAUL_BENCH_INSIDE=1 exec "$@"'
        os.execvp("unshare", [*OWN, "sh", "-c", script, "sh", sys.executable, *sys.argv])
