"""How long lanes take to come up and to change, against a shell script of the same ip and tc commands, in one run.

A change is the median of five, by a process that runs, such as the daemon, and by the command line. By hand, in a lab
by the wall clock. Takes minutes for 1, 12 and 100 lanes, nearly all of them for the 100.

Example:
  longhaul lab run --real-time -- python3 tests/bench/lanes.py 1 12
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from helped import parser

from emulator.control.appliance import Appliance
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology

RATED = Impairment(rate_bps=10**9)


def star(lanes: int, rtt_ns: int) -> Topology:
    """That many virtual lanes of one RTT at 1 Gbit/s."""
    return Topology("bench", "hub", tuple(Lane(f"s{n}", RATED, RATED).with_rtt(rtt_ns) for n in range(lanes)))


def seconds(work: Callable[[], object]) -> float:
    """By the wall clock."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def script(commands: list[str]) -> Callable[[], object]:
    """The same done by a shell."""
    # By stdin: an argument has room for 128 KiB.
    return lambda: subprocess.run(
        ["sh", "-e"], input="\n".join(commands), text=True, check=True, stdout=subprocess.DEVNULL
    )


def changes(appliance: Appliance, lanes: int, folder: Path) -> tuple[float, float, float]:
    """Seconds that a change of one lane takes: by the script, in this process, and by the command line, in turn."""
    up, found = star(lanes, 20_000_000), []
    environment = os.environ | {"LONGHAUL_STATE": str(folder)}
    for round_ in range(6):
        # Each way comes from the same RTT, so that all have the same commands.
        changed = up.lane("s0").with_rtt((40 + round_) * 1_000_000)
        commands = [str(step.op) for step in appliance.plan(up.with_lane(changed))]
        by_script = seconds(script(commands))
        appliance.up(up)
        by_call = seconds(partial(appliance.set_lane, changed))
        appliance.up(up)
        argv = ["longhaul", "set", "s0", "--rtt", f"{40 + round_}ms"]
        run = partial(subprocess.run, argv, check=True, stdout=subprocess.DEVNULL, env=environment)
        by_command = seconds(run)
        appliance.up(up)
        found.append((by_script, by_call, by_command))
    # The first round reads the programs from the disk.
    first, second, third = (statistics.median(times) for times in zip(*found[1:], strict=True))
    return first, second, third


def main(counts: list[int]) -> None:
    """Print one line for each number of lanes."""
    print(
        f"{'lanes':>5} {'up':>8} {'script':>8} {'ratio':>6} {'script':>8} {'set':>8} {'ratio':>6} {'longhaul set':>12}"
    )
    for lanes in counts:
        appliance = Appliance(NetlinkKernel(), folder := Path(tempfile.mkdtemp()))
        commands = [str(step.op) for step in appliance.plan(star(lanes, 20_000_000))]
        by_script = seconds(script(commands))
        appliance.down()
        up = seconds(lambda: appliance.up(star(lanes, 20_000_000)))
        set_script, one, command = changes(appliance, lanes, folder)
        appliance.down()
        print(
            f"{lanes:5} {up:7.2f}s {by_script:7.2f}s {up / by_script:6.2f} "
            f"{set_script:7.3f}s {one:7.3f}s {one / set_script:6.2f} {command:11.3f}s {command / set_script:6.2f}"
        )


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("lanes", nargs="*", type=int, default=[1, 12, 100], help="how many, each; 1 12 100 unless said")
    main(said.parse_args().lanes)
