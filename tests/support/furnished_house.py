"""A daemon with a past, to be looked at: the founding star with traffic, changes, a certificate and two runs.

Traffic, round trips and results are made up and always the same.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.control.rtt_monitor import Echoes, Rtts
from emulator.errors import MeasureError
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.hosts.tools.program import ProgramWorkload
from emulator.kernel.protocol import QueueCounters
from emulator.plan.state import Link, Nic
from support import made_programs, made_requests
from support.made_results import execution
from support.web_daemon import TOKENS, House

START = 1_790_000_000.0
MINUTES = 4
MIB = 2**20


class Wavy:
    """Round trips around what the lane asks, with a queue that comes and goes."""

    def __init__(self, house: House, address: str) -> None:
        self._house, self._address, self._dice = house, address, random.Random(address)

    def take(self) -> Rtts:
        """Ten of them."""
        topology = self._house.appliance.topology()
        assert topology
        lane = next(one.in_effect for one in topology.lanes if str(topology.address(one.name).ip) == self._address)
        swell = 1 + 0.05 * max(0.0, math.sin(self._house.clock.now / 20))
        return Rtts(tuple(sorted(int(lane.rtt_ns * swell * self._dice.uniform(1, 1.02)) for _ in range(10))))

    def alive(self) -> bool:
        """Always."""
        return True

    def stop(self) -> None:
        """Nothing runs."""


class Once:
    """Measures the same every time."""

    def __init__(self, rtts: Rtts) -> None:
        self._rtts = rtts

    def take(self) -> Rtts:
        """What it was made with."""
        return self._rtts

    def alive(self) -> bool:
        """Always."""
        return True

    def stop(self) -> None:
        """Nothing runs."""


def measured(spec: CellSpec) -> Execution:
    """A result as physics would have it; one cell of streams fails."""
    if isinstance(spec.workload, ProgramWorkload):
        return made_programs.execution(spec)
    if isinstance(spec.workload, RequestsWorkload):
        made = made_requests.result(spec.workload.requests, spec.lane.rtt_ns)
        return Execution(replace(made, spec=spec), {})
    if spec.profile.name == "max" and spec.lane.rtt_ns > 3e8:
        raise MeasureError("iperf3: unable to connect to server: Connection timed out")
    window = 4 * MIB if spec.profile.name == "default" else 512 * MIB
    return execution(spec, min(spec.expected_bytes_per_s, window / max(spec.lane.rtt_ns / 1e9, 1e-3)) * 0.98)


def furnished(folder: Path) -> House:
    """The founding star with a past: traffic, changes, a certificate, two runs."""
    house = House(folder, runner=measured, confines=lambda: True)
    house.clock.now = house.daemon.started = START
    house.kernel.links |= {"eth0": Link(1500, True, True, 0)}
    house.kernel.links |= {f"enp3s0f{n}": Link(9000, True, True, 0) for n in range(2)}
    gro = frozenset({"gro"})
    house.kernel.nics["eth0"] = Nic("52:54:00:12:34:56", "", "0000:00:03.0", (), "virtio_net", offloads=gro)
    for n in range(2):
        house.kernel.nics[f"enp3s0f{n}"] = Nic(
            f"3c:fd:fe:00:00:0{n}", "", f"0000:03:00.{n}", (), "ice", 25000, n == 0, 0, 16, 16, 9000, gro
        )
    house.live._echoes = Echoes(lambda _, address: Wavy(house, address))
    house.up()
    house.client.patch("/api/lanes/london", json={"loss": "0.01%", "rate": "1Gbit", "buffer": "8MiB"})
    house.client.patch("/api/lanes/japan", json={"rtt": "300ms"})
    house.client.post("/api/undo")
    house.client.post("/api/certificates")
    past(house, MINUTES * 60)
    for rtts in (["0ms", "32ms", "80ms", "346ms"], ["32ms", "80ms"]):
        ran(house, {"rtt": rtts, "tcp_profile": ["default", "max"], "rate": "10Gbit"})
    return house


def ran(house: House, asked: dict[str, Any]) -> str:
    """The name of a run that has ended."""
    operator = house.someone(TOKENS.operator)
    name = str(operator.post("/api/runs", json=asked | {"in_lab": True}).json["id"])  # type: ignore[index]
    while house.client.get(f"/api/runs/{name}").json["state"] == "running":  # type: ignore[index]
        time.sleep(0.01)
    return name


def past(house: House, seconds: int) -> None:
    """Traffic for so long."""
    dice = random.Random(1)
    for lane, side in itertools.product(("california", "london", "japan"), ("s", "h")):
        house.kernel.counted.setdefault(f"lh{side}-{lane}", QueueCounters(0, 0, 0, 0, 0, 0))
    for _ in range(seconds):
        for port, was in house.kernel.counted.items():
            share = (0.9 if port.startswith("lhs") else 0.03) * (1 + 0.3 * math.sin(house.clock.now / 30))
            packets, dropped = int(8000 * share * dice.uniform(0.9, 1.1)), int(dice.random() < 0.05) * 3
            queued = int(packets * 0.04)
            house.kernel.counted[port] = QueueCounters(
                was.packets + packets, was.bytes + packets * 1514, was.drops + dropped, queued, queued * 1514,
                was.shaper_drops + dropped,
                flows=tuple(replace(one, packets=one.packets + 100, bytes=one.bytes + 21_400) for one in was.flows),
            )  # fmt: skip
        house.tick()
        house.live.look()
