"""One session of the wire engine in real time, in namespaces of its own: what it finds goes to stdout as JSON.

`tests/engine/test_live.py` starts it (unshare: network, mounts, processes) and judges what it found. Nothing here
judges by how long something took: on a loaded machine all is late, and the session measures how late the timers are.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.watchdog_thread import Watchdog
from emulator.kernel import engine_client, netns
from emulator.kernel.netlink import NetlinkKernel
from emulator.kernel.protocol import Kernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Topology
from emulator.system import event_log
from support.engine_receivers import flap, processors, ring_bytes
from support.host_traffic import DEADLINE_S, kinds_of_frames, numbered, patterned, round_trips, tagged
from support.waiting import until

STAR = """
name: star
hub: hub
defaults: {rate: 1Gbit, buffer: 16MiB}
lanes: {california: {rtt: 32ms}, london: {rtt: 80ms}, japan: {rtt: 346ms}}
"""
"""The buffer holds all that TCP may have under way: what a loaded machine lets go in one burst is not dropped."""
JUMBO = "{name: jumbo, hub: hub, defaults: {mtu: 9000, rate: 1Gbit}, lanes: {far: {rtt: 4ms}}}"
MS = 10**6
PASSING_MS = 200
"""The RTT of the lane that opens: no machine is late by so much, so what is shorter has not passed through it."""
PATTERN_BYTES, LOSSY_BYTES = 500_000_000, 5_000_000


def timer_lateness_ns() -> int:
    """By how much the machine's own timers are late just now: the median of fifty sleeps."""
    late = []
    for _ in range(50):
        asked = time.monotonic_ns() + MS
        time.sleep(0.001)
        late.append(time.monotonic_ns() - asked)
    return sorted(late)[25]


def matrix(topology: Topology) -> list[dict[str, Any]]:
    """The least RTT of every pair of hosts beside the one asked for."""
    rows = []
    for one, other in combinations([topology.hub, *topology.sites], 2):
        asked = topology.rtt_ns(one, other)
        rows.append(
            {"pair": f"{one} {other}", "asked_ns": asked, "min_ns": round_trips(topology, one, other, asked + MS)}
        )
    return rows


def lossy(appliance: Appliance) -> dict[str, Any]:
    """TCP in super-frames over a lane that loses, duplicates nothing and cuts the super-frames that a loss hits."""
    topology = appliance.topology()
    assert topology
    lane = topology.lane("california")
    hurt = Impairment(2 * MS, loss_p32=2**32 // 100)
    appliance.set_lane(type(lane)(lane.name, hurt, Impairment(2 * MS)))
    before = engine_client.stats("lh-california")["outbound"]
    result = patterned(topology, LOSSY_BYTES)
    after = engine_client.stats("lh-california")["outbound"]
    return result | {key: after[key] - before[key] for key in ("lost", "split", "limit", "refused")}


def kill(bridge: str) -> None:
    """kill -9, and wait until it is dead."""
    process_fd = engine_client.watch(bridge)
    signal.pidfd_send_signal(process_fd, signal.SIGKILL)
    ended = select.poll()
    ended.register(process_fd, select.POLLIN)
    ended.poll(DEADLINE_S * 1000)
    os.close(process_fd)


def killed(appliance: Appliance, topology: Topology) -> dict[str, Any]:
    """kill -9 of an engine: seen, and put right by the next up."""
    kill("lh-california")
    drift = [" ".join([*str(step.op).split()[:2], step.why]) for step in appliance.status().drift]
    appliance.up(topology)
    return {
        "drift": drift,
        "after_ns": round_trips(topology, "hub", "california", 33 * MS),
        "left": appliance.status().drift,
    }


def watched(topology: Topology) -> dict[str, Any]:
    """kill -9 amid a stream, beside a watchdog that looks by itself once an hour."""
    appliance, log, results = Appliance(NetlinkKernel(), Path("/run/state")), io.StringIO(), list[dict[str, Any]]()
    watchdog = Watchdog(appliance, event_log.logger(log, {}), period_s=3600)
    watchdog.start()
    until(lambda: "event=watching" in log.getvalue())
    stream = threading.Thread(target=lambda: results.append(patterned(topology, LOSSY_BYTES)))
    stream.start()
    until(lambda: engine_client.stats("lh-california")["outbound"]["received_bytes"] > 100_000)
    kill("lh-california")
    repaired = until(lambda: "event=repaired" in log.getvalue())
    stream.join()
    watchdog.stop()
    last = appliance.history(1)[0]
    return results[0] | {"repaired": repaired, "history": f"{last.author.command}: {last.summary}"}


def passing(kernel: Kernel, appliance: Appliance, topology: Topology) -> dict[str, Any]:
    """kill -9 where the topology says `pass`: the bridge opens by itself, and closes again with the next up."""
    appliance.up(topology)
    kill("lh-far")
    opened = until(lambda: kernel.observe().bridges["lh-far"].up)
    unimpaired = round_trips(topology, "hub", "far", PASSING_MS * MS // 2)
    appliance.up(topology)
    after = round_trips(topology, "hub", "far", 2 * PASSING_MS * MS)
    return {"opened": opened, "unimpaired_ns": unimpaired, "after_ns": after}


def left_behind() -> dict[str, list[str]]:
    """What of ours is there: engines, sockets, namespaces, interfaces."""
    alive = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            name, _, rest = stat.read_text().partition("(")[2].rpartition(") ")
            alive += [stat.parent.name] if name == "longhaul-wire" and rest[0] != "Z" else []
    links = [name for _, name in socket.if_nameindex() if name.startswith("lh")]
    # Who has which processor is an empty file, once there are enough of them.
    sockets = (
        [p.name for p in engine_client.RUN.iterdir() if p.name != "processors"] if engine_client.RUN.exists() else []
    )
    return {"engines": alive, "sockets": sockets, "namespaces": sorted(netns.names()), "links": links}


def refused(appliance: Appliance) -> str:
    """An engine told to hear an interface that is not there, by hand."""
    text = json.dumps({"on_failure": "cut", "hub": "no-port", "site": "lo", "bridge": "lo"} | wire_directions())
    done = subprocess.run(
        [engine_client.BINARY, "/run/x.sock"], input=text, text=True, capture_output=True, check=False
    )
    return f"{done.returncode} {done.stderr.strip()}"


def wire_directions() -> dict[str, Any]:
    one = {"settings": {"delay_ns": 1, "limit": 1}, "memory_bytes": 1}
    return {"outbound": one, "inbound": one}


def noise() -> bool:
    """Whether the control socket still answers after requests that make no sense, and halves of others."""
    path = str(engine_client._path("lh-california"))
    for text in (
        b"",
        b"\n",
        b"{",
        b"\xff\n",
        b'{"op":"set"}\n',
        b"[" * 5000 + b"\n",
        b'{"op":"set","outbound":{"limit":-1}}\n',
    ):
        with socket.socket(socket.AF_UNIX) as there:
            there.connect(path)
            there.sendall(text)
            there.shutdown(socket.SHUT_WR)
            while there.recv(1000):
                pass
    return engine_client.observe()["lh-california"].running and Path(path).stat().st_mode & 0o777 == 0o600


def settled(found: dict[str, Any]) -> bool:
    """Whether all that came in has left, by the counters of one moment, which stay in `found`."""
    found["stats"] = engine_client.stats("lh-california")
    out = found["stats"]["outbound"]
    return bool(out["queued"] == 0 and out["sent"] == out["received"])


def main() -> None:
    kernel = NetlinkKernel()
    appliance = Appliance(kernel, Path("/run/state"))
    star = loader.loads(STAR)
    found: dict[str, Any] = {"steps": len(appliance.up(star)), "again": len(appliance.up(star))}
    found["datapath"] = appliance.status().datapath
    found["lateness_ns"] = timer_lateness_ns()
    found["matrix"] = matrix(star)
    found["lateness_ns"] = max(found["lateness_ns"], timer_lateness_ns())
    lane = star.lane("california")
    # Longer, nearly none, and back again: from a ring to another, to calls, to a ring.
    changes = [partial(appliance.set_lane, lane.with_rtt(rtt * MS)) for rtt in (60, 4, 100, 32)]
    found["live"] = numbered(star, changes)
    found["rings"] = {lane: ring_bytes(f"lh-{lane}") for lane in star.sites}
    found["flap"] = flap(star)
    found["noise"] = noise()
    found["pattern"] = patterned(star, PATTERN_BYTES)
    # The last of what TCP sent twice is still on its way.
    until(lambda: settled(found))
    found["lossy"] = lossy(appliance)
    appliance.up(star)
    found["killed"] = killed(appliance, star)
    found["watched"] = watched(star)
    found["refused"] = refused(appliance)
    found["processors"] = processors(kernel, ("lh-california", "lh-london"))
    for kind, rtt in (("calls", "4ms"), ("ring", "80ms")):
        jumbo = loader.loads(JUMBO.replace("4ms", rtt))
        appliance.up(jumbo)
        found[kind] = {"frames": kinds_of_frames(jumbo), "tagged": tagged(), "ring_bytes": ring_bytes("lh-far")}
    open_lane = JUMBO.replace("hub: hub", "hub: hub, on_failure: pass").replace("4ms", f"{PASSING_MS}ms")
    found["passing"] = passing(kernel, appliance, loader.loads(open_lane))
    kill("lh-far")
    appliance.down()
    # The guard of the lane that was killed ends by itself, once it has tried to open the bridge.
    until(lambda: not left_behind()["engines"])
    found["left"] = left_behind()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
