"""verify and sweep between machines over SSH: the same figures as between namespaces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.folders import ROOT
from support.lab_cells import MIB, MS
from support.ssh_machines import Machines, machines
from support.waiting import until

from emulator.cli.main import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.topology import Topology
from emulator.plan.desired_state import wanted
from web.api.run_form import RunForm
from web.runs import Runs, local_runners
from web.service import UseCases

TOPOLOGY = """
name: machines
hub: here
hub_host: hub-machine
defaults: {rate: 1Gbit}
lanes:
  near: {rtt: 20ms, ports: {hub: hub-2, site: site-2}, host: near-machine}
  far: {rtt: 80ms, ports: {hub: hub-3, site: site-3}, host: far-machine}
"""

Cells = list[dict[str, Any]]
Both = Callable[..., tuple[Cells, Cells]]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(tmp_path_factory.mktemp("keys"), "hub", ("near", "far")) as made:
        yield made


@pytest.fixture
def appliance(three: Machines, tmp_path: Path) -> Iterator[Appliance]:
    kernel = NetlinkKernel()
    yield (one := Appliance(kernel, tmp_path))
    one.down()
    kernel.close()


@pytest.fixture
def topology() -> Topology:
    return loader.loads(TOPOLOGY)


def test_verify_measures_every_pair_and_the_sum_of_the_compound_path(
    appliance: Appliance, topology: Topology, capsys: pytest.CaptureFixture[str]
) -> None:
    appliance.up(topology)
    assert main(["verify", "--json", "--count", "5"], obj=appliance) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    asked = {("here", "near"): 20, ("here", "far"): 80, ("near", "far"): 100}
    assert {(p["one"], p["other"]): p["asked_ns"] // 10**6 for p in pairs} == asked
    assert all(abs(p["median_ns"] - p["asked_ns"]) < 10_000 for p in pairs), pairs


def test_verify_of_one_lane(appliance: Appliance, topology: Topology, capsys: pytest.CaptureFixture[str]) -> None:
    appliance.up(topology)
    assert main(["verify", "--count", "1", "near"], obj=appliance) == 0
    rows = capsys.readouterr().out.splitlines()[1:3]
    assert [row.split()[:2] for row in rows] == [["here", "near"], ["near", "far"]]


def swept(args: list[str], appliance: Appliance, capsys: pytest.CaptureFixture[str]) -> Cells:
    code = main(["sweep", "--lane", "far", "--json", *args], obj=appliance)
    answer = json.loads(capsys.readouterr().out)
    cells: Cells = answer["cells"]
    assert (code, answer["failures"], [cell["judgement"]["invalid"] for cell in cells]) == (0, {}, [[]] * len(cells))
    assert cells
    return cells


@pytest.fixture
def both(
    three: Machines,
    appliance: Appliance,
    topology: Topology,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Both:
    """Sweep over SSH, between the machines of the lanes that are up, and then between namespaces. Returns both cells.

    `section` is what the topology file says of the sweep. Over SSH nothing may be left on the machines or the lanes.
    """
    # Its own: the cells run in another thread, and pyroute2 opens a socket in every thread that uses one.
    monkeypatch.setattr("emulator.control.local.local", lambda: Appliance(NetlinkKernel(), tmp_path))
    alike = re.sub(r", ports.*}|hub_host.*\n", lambda found: "}" * (found[0][0] == ","), TOPOLOGY)
    left = "ls -d /tmp/longhaul-program-*; ss -tlnH sport = :8000"
    settings = f"grep . /proc/sys/net/ipv4/tcp_*; ip route show dev lane0; {left}"

    def sweep(*args: str, section: str = "") -> tuple[Cells, Cells]:
        given, before = [*args, "--runs", str(tmp_path)], three.inside("far", settings)
        for name, text in (("machines", TOPOLOGY), ("alike", alike)):
            (tmp_path / f"{name}.yaml").write_text(text + section)
        appliance.up(topology)
        over_ssh = swept([*given, *([str(tmp_path / "machines.yaml")] if section else [])], appliance, capsys)
        assert three.inside("far", settings) == before
        assert appliance.topology() == topology, "the lane was not returned"
        appliance.down()
        return over_ssh, swept([*given, str(tmp_path / "alike.yaml")], appliance, capsys)

    return sweep


def test_streams_over_ssh_equal_those_between_namespaces(both: Both) -> None:
    cells = both("--tcp-profile", "founding", "--duration", "5")
    for group, name in (("throughput", "steady_bytes_per_s"), ("throughput", "mean_bytes_per_s"), ("delays", "rtt_ns")):
        got, want = ([cell[group][name] for cell in one] for one in cells)
        assert got == pytest.approx(want, rel=0.01), name


def test_streams_that_overflow_the_buffer_over_ssh_are_valid(both: Both) -> None:
    """One drop is many segments where a port hands super-frames over, as one to a virtual machine does."""
    cells = both("--tcp-profile", "founding", "--rate", "100Mbit", "--duration", "10", "--repeats", "1")
    again, dropped = (
        [cell[group][name] for one in cells for cell in one]
        for group, name in (("transfer", "retransmits"), ("queues", "drops_buffer"))
    )
    assert (again[0], dropped[1]) == (again[1], again[1])
    assert dropped[0] < again[0]


def test_requests_over_ssh_equal_those_between_namespaces(both: Both) -> None:
    grid = ("--tcp-profile", "founding", "--duration", "5", "--repeats", "1")
    over_ssh, in_namespaces = both(*grid, "--connections", "4", "--answer", "1KiB,64KiB")
    for name in ("p50_ns", "p99_9_ns", "count"):
        got, want = ([cell["requests"]["times"][name] for cell in cells] for cells in (over_ssh, in_namespaces))
        assert got == pytest.approx(want, rel=0.01), name
    assert [cell["judgement"]["kind"] for cell in over_ssh] == ["round trips"] * 2
    assert [cell["requests"]["answered"] for cell in over_ssh] == [252, pytest.approx(244, abs=8)]


def test_a_preset_over_ssh_takes_as_long_as_between_namespaces(both: Both) -> None:
    """The clock of the client's own machine counts, so that the way to it over SSH does not."""
    preset = (ROOT / "topologies/download.yaml").read_text()
    cells = both("--rtt", "20,80", "--initcwnd", "10", "--repeat", "2", section=preset[preset.index("sweep:") :])
    got, want = ([run["completion_ns"] for cell in one for run in cell["program"]["runs"]] for one in cells)
    assert got == pytest.approx(want, abs=MS)
    assert got == pytest.approx([8 * 20 * MS] * 2 + [8 * 80 * MS] * 2, abs=5 * MS)
    over_ssh, in_namespaces = ([cell["program"] for cell in one] for one in cells)
    runs = [run for program in (*over_ssh, *in_namespaces) for run in program["runs"]]
    assert [[one["received_bytes"] > MIB for one in run["connections"]] for run in runs] == [[True]] * 8
    assert [program["frames"] for program in over_ssh] == [None] * 2
    assert all(program["frames"] for program in in_namespaces)


def test_the_web_measures_over_the_lanes_that_are_up(
    appliance: Appliance, topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulator.control.local.local", lambda: Appliance(NetlinkKernel(), tmp_path))
    appliance.up(topology)
    runs = Runs(tmp_path / "runs", UseCases(appliance), local_runners, lambda _: None)
    name = runs.start(RunForm(lane=["far"], tcp_profile=["founding"], duration="5")).id  # type: ignore[arg-type]
    assert until(lambda: runs.get(name).state == "done")
    run = runs.get(name)
    assert (run.failures, run.trouble) == ({}, "")
    assert [
        (cell.spec.lane.host, cell.delays.rtt_ns // 10**6, cell.judgement.invalid) for cell in run.found.values()
    ] == [("far-machine", 80, ())]
    assert (appliance.topology(), appliance.status().as_asked) == (topology, True)


def test_a_sweep_that_is_killed_leaves_the_lanes_as_the_user_had_them(
    appliance: Appliance, topology: Topology, tmp_path: Path
) -> None:
    """The last test of this file: the guards of the machines wait a while for the sweep that was killed."""
    appliance.up(topology)
    argv = ["sweep", "--lane", "far", "--tcp-profile", "founding", "--mtu", "1400", "--duration", "60", "--runs"]
    env = {**os.environ, "LONGHAUL_STATE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-m", "emulator", *argv, str(tmp_path)], cwd=ROOT, env=env) as sweep:
        assert until(lambda: IntentStore(tmp_path).leaseholder() == sweep.pid)
        assert until(lambda: appliance.status().lane("far").lane.mtu == 1400 and appliance.status().as_asked)
        time.sleep(10)
        sweep.kill()
        killed_at = time.monotonic()
    assert until(lambda: IntentStore(tmp_path).read().pending is None and appliance.status().as_asked)
    assert time.monotonic() - killed_at < 0.5
    with closing(NetlinkKernel()) as kernel:
        have = kernel.observe()
    assert (appliance.topology(), have) == (topology, wanted(topology, have))
    assert [change.summary.split()[0] for change in appliance.history() if change.before != change.after] == ["up"]
