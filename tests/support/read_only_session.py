"""A lane between two cables where /proc/sys is read-only and NET_ADMIN and NET_RAW are all there is, as in a container.

`tests/engine/test_read_only_sysctls.py` starts it, with the right values set before the ports are there (`quiet`),
after it (`late`), or not at all (`loud`), and judges what it found, which goes to stdout as JSON.
"""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys
from pathlib import Path

from emulator.kernel import capabilities
from support.waiting import until

TOPOLOGY = "{name: office, hub: here, lanes: {there: {rtt: 30ms, rate: 100Mbit, ports: {hub: eth1, site: eth2}}}}"
HELD = ["setpriv", "--inh-caps=-all", "--bounding-set=-all,+net_admin,+net_raw"]
CABLES = "; ".join(
    f"ip netns add far{n}; ip link add eth{n} type veth peer name eth0 netns far{n}; ip link set eth{n} up; "
    f"ip -n far{n} link set eth0 up; ip -n far{n} addr add 10.9.0.{n}/24 dev eth0"
    for n in (1, 2)
)


def main() -> None:
    if sys.argv[1] == "late":
        sh(CABLES)
    if sys.argv[1] != "loud":
        for name, value in capabilities.SILENT.items():
            if (path := capabilities.SYSCTLS / name).exists():
                path.write_text(value)
    sh("mount -o bind,ro /proc/sys /proc/sys")
    if sys.argv[1] != "late":
        sh(CABLES)
    Path("/run/office.yaml").write_text(TOPOLOGY)
    # The kernel tells the state of a new cable up to a second later (net/core/link_watch.c).
    assert until(lambda: links().count("state UP") == 2)
    before = links()
    up = longhaul("up", "/run/office.yaml")
    found = {"up": up.returncode, "said": up.stdout + up.stderr, "fixed": capabilities.fixed_sysctls()}
    if up.returncode == 0:
        rtt = re.search(r"= ([\d.]+)/", sh("ip netns exec far1 ping -c 5 -i 0.2 -q 10.9.0.2 || true"))
        found |= {"rtt_ms": float(rtt[1]) if rtt else 0.0, "status": longhaul("status").returncode}
        found["down"] = longhaul("down").returncode
    found["changed"] = [line for line in difflib.ndiff(before.splitlines(), links().splitlines()) if line[0] != " "]
    sys.stdout.write(json.dumps(found))


def longhaul(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*HELD, "env", "LONGHAUL_STATE=/run/state", sys.executable, "-m", "emulator", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def links() -> str:
    return sh("ip -d link")


def sh(script: str) -> str:
    return subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
