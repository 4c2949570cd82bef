"""What a machine looks like to iproute2, ethtool and sysctl. Imports nothing of ours: it is the witness.

As a program it prints a snapshot:  python3 tests/support/oracle.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

NOISE = re.compile("stats.*|operstate|gc_timer|.*_timer|carrier_.*|(valid|preferred)_life_time")
"""What counts, ticks or follows a carrier by itself, and says nothing of how a machine is set up."""

UNMADE = "the default, from the next up on"
"""The queue of a link that is down and has none of anybody's. Until its first up the kernel shows "noop", later the
default that it had when it last was up, and "noop" again when a queue is taken off while it is down. None of them
carries anything, each is replaced or kept as the default with the next up (net/sched/sch_generic.c, dev_activate),
and no request leads from one to the other but that up."""


def sh(command: str) -> str:
    """What a shell command prints. Raises CalledProcessError."""
    return subprocess.run(["sh", "-c", command], check=True, text=True, capture_output=True).stdout


def snapshot() -> dict[str, Any]:
    """Links, addresses, routes, qdiscs, offloads, sysctls of the network, namespaces, bridges' ports."""
    time.sleep(5)  # of virtual time: link watch is up to a second late, IPv6 tries its addresses for two
    names = sorted(path.name for path in Path("/sys/class/net").iterdir())
    routes = json.loads(sh("ip -j -d route show table all")) + json.loads(sh("ip -j -d -6 route show table all"))
    namespaces = Path("/run/netns")
    links, qdiscs = json.loads(sh("ip -j -d link show")), json.loads(sh("tc -j qdisc show"))
    installed = {qdisc["dev"] for qdisc in qdiscs if qdisc["handle"] != "0:"}
    unmade = {link["ifname"] for link in links if "UP" not in link["flags"]} - installed
    return {
        "links": [_plain(link, unmade) for link in links],
        "addresses": [_plain(link, unmade) for link in json.loads(sh("ip -j -d addr show"))],
        "routes": sorted(json.dumps(_plain(route), sort_keys=True) for route in routes),
        "qdiscs": [qdisc for qdisc in qdiscs if qdisc["dev"] not in unmade],
        "offloads": {name: sh(f"ethtool -k {name} 2>/dev/null || true").splitlines() for name in names},
        "sysctls": dict(_sysctls(Path("/proc/sys/net"))),
        "namespaces": sorted(path.name for path in namespaces.iterdir()) if namespaces.is_dir() else [],
    }


def difference(before: Any, after: Any, where: str = "") -> list[str]:
    """Every leaf that is not the same, for people."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(before.keys() | after.keys())
        return [d for k in keys for d in difference(before.get(k), after.get(k), f"{where}/{k}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [d for i, (b, a) in enumerate(zip(before, after, strict=True)) for d in difference(b, a, f"{where}/{i}")]
    return [] if before == after else [f"{where}: {before!r} -> {after!r}"]


def _plain(value: Any, unmade: Collection[str] = ()) -> Any:
    if isinstance(value, dict):
        known = value | {"qdisc": UNMADE} if value.get("ifname") in unmade else value
        return {key: _plain(inner, unmade) for key, inner in known.items() if not NOISE.fullmatch(key)}
    return [_plain(inner, unmade) for inner in value] if isinstance(value, list) else value


def _sysctls(folder: Path) -> list[tuple[str, str]]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and os.access(path, os.R_OK):
            try:
                found.append((str(path), path.read_text().strip()))
            except OSError:
                continue
    return found


if __name__ == "__main__":
    print(json.dumps(snapshot(), indent=1))  # noqa: T201
