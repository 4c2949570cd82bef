"""Wall seconds per virtual second of one TCP stream in the lab, at 1, 10 and 100 Gbit/s. By hand, on the host.

Boots six labs, one after another: 10 s of virtual time each. Takes about a minute, and longer where others work.

Example:
  .venv/bin/python tests/bench/speed.py
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from helped import parser

from emulator.lab import boot
from emulator.lab.boot_options import BootOptions

VIRTUAL_S = 10
TOPOLOGY = "name: speed\nhub: near\nlanes:\n  far: {{rtt: 32ms, rate: {rate}}}\n"
STREAM = f"""
longhaul up speed.yaml >/dev/null
for host in near far; do ip netns exec lh-$host sysctl -qw net.ipv4.tcp_rmem='4096 131072 536870912'
ip netns exec lh-$host sysctl -qw net.ipv4.tcp_wmem='4096 16384 536870912'; done
sysctl -qw net.ipv4.tcp_mem='4000000 5000000 6000000'
ip netns exec lh-far iperf3 -s -1 -D; sleep 1
ip netns exec lh-near iperf3 -c 10.77.0.2 -Z -l 1M -t {VIRTUAL_S} | grep receiver
"""
IDLE = STREAM.replace("| grep receiver", "-b 1 >/dev/null")


def main() -> None:
    """Print one line for each rate, the boot and bring-up taken off."""
    with TemporaryDirectory() as folder:
        here = Path(folder)
        for rate in ("1Gbit", "10Gbit", "100Gbit"):
            (here / "speed.yaml").write_text(TOPOLOGY.format(rate=rate))
            took, said = {}, b""
            for name, script in (("idle", IDLE), ("busy", STREAM)):
                begin = time.perf_counter()
                done = boot.capture(["sh", "-c", script], BootOptions(here))
                took[name] = time.perf_counter() - begin
                said = done.stdout or done.stderr
            figure = (took["busy"] - took["idle"]) / VIRTUAL_S
            print(f"{rate:>8}: {figure:.2f} wall s per virtual s  {said.decode().strip()}")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
