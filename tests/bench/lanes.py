"""How long lanes take to come up and to change, against a shell script of the same ip and tc commands, in one run.

By hand, in a lab by the wall clock. Takes minutes for 1, 12 and 100 lanes, nearly all of them for the 100.

Example:
  longhaul lab run --real-time -- python3 tests/bench/lanes.py 1 12
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
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


def main(counts: list[int]) -> None:
    """Print one line for each number of lanes."""
    print(f"{'lanes':>5} {'up':>8} {'script':>8} {'ratio':>6} {'set':>8} {'script':>8} {'ratio':>6}")
    for lanes in counts:
        appliance = Appliance(NetlinkKernel(), Path(tempfile.mkdtemp()))
        commands = [str(step.op) for step in appliance.plan(star(lanes, 20_000_000))]
        by_script = seconds(script(commands))
        appliance.down()
        up = seconds(lambda: appliance.up(star(lanes, 20_000_000)))
        changed = star(lanes, 20_000_000).lane("s0").with_rtt(40_000_000)
        steps = appliance.plan(star(lanes, 20_000_000).with_lane(changed))
        set_script = seconds(script([str(step.op) for step in steps]))
        appliance.up(star(lanes, 20_000_000))
        one = seconds(lambda: appliance.set_lane(changed))
        appliance.down()
        print(
            f"{lanes:5} {up:7.2f}s {by_script:7.2f}s {up / by_script:6.2f} "
            f"{one:7.2f}s {set_script:7.2f}s {one / set_script:6.2f}"
        )


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("lanes", nargs="*", type=int, default=[1, 12, 100], help="how many, each; 1 12 100 unless said")
    main(said.parse_args().lanes)
