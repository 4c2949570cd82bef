"""Runs over some lanes of a star that is up: every lane alone, and in any order; the other lanes notice nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.folders import TOPOLOGIES

from emulator.cli import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.experiment import grid, run_cell
from emulator.experiment.cell_result import CellResult
from emulator.hosts import tcp_profiles
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools import ping
from emulator.hosts.tools.process import Running
from emulator.model.sweep_axes import Axes
from emulator.model.topology import Topology

DEMO = loader.load(TOPOLOGIES / "demo.yaml")
LIMIT_S = 60.0
ONE_ECHO = ("ping", "-n", "-c", "1", "-W", "2")
"""It must come back within 2 s, some six round trips; a wrong neighbour entry takes 5 s and more to go."""

ORDERS = {
    "netem": [("california",), ("london",), ("japan",), ("london", "california"), ("japan", "california", "london")],
    "wire": [("london",), ("japan", "california")],
}


@contextmanager
def echoes(topology: Topology, names: list[str]) -> Iterator[dict[str, Running]]:
    """Pings from the hub to these sites, ten a second, from the first answers on."""
    hub = NamespaceHost(topology.hub)
    addresses = {name: str(topology.address(name).ip) for name in names}
    for address in addresses.values():
        hub.run([*ONE_ECHO, address], LIMIT_S).checked()
    programs = {name: hub.start(ping.endless_argv(address, 0.1)) for name, address in addresses.items()}
    yield programs
    for program in programs.values():
        program.terminate()


def lost(program: Running) -> int:
    """The echoes that are missing between the first and the last that came."""
    program.interrupt()
    lines = program.wait(LIMIT_S).stdout.splitlines()
    numbers = [reply[0] for line in lines if (reply := ping.parse_reply(line))]
    assert len(numbers) > 30
    return numbers[-1] - numbers[0] + 1 - len(numbers)


def measured(appliance: Appliance, lanes: tuple[str, ...], **axes: object) -> list[CellResult]:
    """The results of one cell for each lane, measured in this order as the demo measures them."""
    asked = Axes(lane=lanes, tcp_profile=("default",), duration=2, **axes)  # type: ignore[arg-type]
    topology = appliance.topology()
    assert topology
    placed = grid.placed(topology, lanes, in_lab=False)
    specs = {spec.lane.name: spec for spec in grid.cells(placed, asked, tcp_profiles.load_profiles())}
    return [run_cell.execute(specs[name], appliance, instead=True).result for name in lanes]


@pytest.mark.parametrize(("datapath", "lanes"), [(path, lanes) for path in ORDERS for lanes in ORDERS[path]])
def test_every_lane_is_measured_as_asked_and_answers_at_once_afterwards(
    appliance: Appliance, pinged: None, datapath: str, lanes: tuple[str, ...]
) -> None:
    star = replace(DEMO, datapath=datapath)
    appliance.up(star)
    others = [name for name in star.sites if name not in lanes]
    hub = NamespaceHost(star.hub)
    with echoes(star, others) as beside:
        for result, name in zip(measured(appliance, lanes), lanes, strict=True):
            asked_ns = star.lane(name).rtt_ns
            assert asked_ns <= result.delays.rtt_ns < asked_ns + 200_000
        for name in star.sites:
            began = time.monotonic()
            hub.run([*ONE_ECHO, str(star.address(name).ip)], LIMIT_S).checked()
            assert time.monotonic() - began < 1
        assert {name: lost(program) for name, program in beside.items()} == dict.fromkeys(others, 0)
    assert appliance.topology() == star
    assert appliance.status().as_asked


def test_a_larger_mtu_of_one_lane_takes_no_packet_of_the_others(appliance: Appliance, pinged: None) -> None:
    appliance.up(DEMO)
    with echoes(DEMO, ["california", "japan"]) as beside:
        (result,) = measured(appliance, ("london",), mtu=(9000,))
        NamespaceHost(DEMO.hub).run([*ONE_ECHO, str(DEMO.address("london").ip)], LIMIT_S).checked()
        assert {name: lost(program) for name, program in beside.items()} == {"california": 0, "japan": 0}
    assert result.spec.lane.mtu == 9000
    assert result.judgement.invalid == ()


@pytest.mark.parametrize("gone", DEMO.sites)
def test_sites_that_take_over_addresses_answer_at_once(appliance: Appliance, gone: str) -> None:
    """A lane is deleted from the file, so that the sites after it move up by one address."""
    appliance.up(DEMO)
    hub = NamespaceHost(DEMO.hub)
    with echoes(DEMO, list(DEMO.sites)):
        smaller = replace(DEMO, lanes=tuple(lane for lane in DEMO.lanes if lane.name != gone))
        appliance.up(smaller)
        for name in smaller.sites:
            hub.run([*ONE_ECHO, str(smaller.address(name).ip)], LIMIT_S).checked()
        appliance.up(DEMO)
        for name in DEMO.sites:
            hub.run([*ONE_ECHO, str(DEMO.address(name).ip)], LIMIT_S).checked()


@pytest.mark.parametrize("lanes", ["london", "japan,california"])
def test_a_sweep_from_the_command_line_over_some_lanes_of_a_file(
    lanes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, pinged: None
) -> None:
    monkeypatch.setenv("LONGHAUL_STATE", str(tmp_path / "state"))
    asked = ["--lane", lanes, "--tcp-profile", "default", "--duration", "2", "--repeats", "1"]
    code = main.main(["sweep", str(TOPOLOGIES / "demo.yaml"), *asked, "--runs", str(tmp_path / "runs"), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert code == 0
    assert answer["failures"] == {}
    assert {cell["spec"]["topology"].count("rtt:") for cell in answer["cells"]} == {1}
    assert len(answer["cells"]) == len(lanes.split(","))
