"""What an engine does beside moving frames: what it takes of the machine, and how it bears a port that goes down."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from emulator.hosts.tools import process
from emulator.kernel import engine_client
from emulator.kernel.protocol import Kernel
from emulator.model.topology import Topology
from emulator.plan import engine_ops
from support.host_traffic import DEADLINE_S, round_trips
from support.waiting import until

MS = 10**6
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _pid(bridge: str) -> int:
    with engine_client._connected(engine_client._path(bridge)) as there:
        return engine_client._pid(there)


def processors(kernel: Kernel, bridges: tuple[str, ...]) -> list[dict[str, list[int]]]:
    """The processors that each thread of these engines may have, started anew by hand with none left to others."""
    found = []
    for bridge in bridges:
        config = engine_client._ask(engine_client._path(bridge), {"op": "get"})["config"]
        kernel.apply(engine_ops.StopWire(bridge))
        text = json.dumps(config | {"spare_processors": 0})
        subprocess.run(
            [engine_client.BINARY, str(engine_client._path(bridge))],
            input=text,
            text=True,
            check=True,
            timeout=DEADLINE_S,
        )
        tasks = Path(f"/proc/{_pid(bridge)}/task")
        assert until(lambda: _at_work(tasks))  # noqa: B023
        found.append({_name(task): sorted(os.sched_getaffinity(int(task.name))) for task in tasks.iterdir()})
    return found


def _name(task: Path) -> str:
    return (task / "comm").read_text().strip()


def _at_work(tasks: Path) -> bool:
    """Whether both directions' threads wait for frames: a thread of a moment ago has no name and no processor yet."""
    states = {_name(task): (task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()}
    return [states.get(name) for name in ("outbound", "inbound")] == ["S", "S"]


def flap(topology: Topology) -> dict[str, Any]:
    """A port that goes down and comes back: how much the engine worked meanwhile, and the RTT afterwards."""
    stat = Path(f"/proc/{_pid('lh-california')}/stat")

    def worked_s() -> float:
        return sum(int(ticks) for ticks in stat.read_text().rpartition(")")[2].split()[11:13]) * TICK_S

    process.run(["ip", "link", "set", "lhh-california", "down"], DEADLINE_S).checked()
    before, start = worked_s(), time.monotonic()
    time.sleep(0.5)
    share = (worked_s() - before) / (time.monotonic() - start)
    process.run(["ip", "link", "set", "lhh-california", "up"], DEADLINE_S).checked()
    # The kernel lets frames through once it has handled the new carrier: up to a second later, more when it is busy.
    echo = ["ping", "-q", "-c", "1", "-W", "1", str(topology.address("california").ip)]
    assert until(lambda: process.run(echo, DEADLINE_S, "lh-hub").exit_code == 0)
    return {"share": share, "after_ns": round_trips(topology, "hub", "california", 33 * MS)}


def ring_bytes(bridge: str) -> list[int]:
    """How large each direction's ring is; 0 for one that fetches frames with calls."""
    return [way["ring_bytes"] for way in engine_client.stats(bridge).values()]
