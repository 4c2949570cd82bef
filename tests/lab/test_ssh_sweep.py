"""verify and sweep between machines over SSH: the same figures as between namespaces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.folders import ROOT
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


ECHO = """
import socket
with socket.create_server(("", 7)) as server:
    while True:
        with server.accept()[0] as connection:
            while data := connection.recv(100):
                connection.sendall(data)
"""
ASK = """
import socket
with socket.create_connection(("{server}", 7)) as connection:
    connection.sendall(b"hello")
    assert connection.recv(5) == b"hello"
"""
PROGRAM = ("--server", f"exec python3 -c '{ECHO}'", "--ready", "tcp:7", "--client", f"exec python3 -c '{ASK}'")


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


def swept(args: list[str], appliance: Appliance, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    code = main(["sweep", "--lane", "far", "--json", *args], obj=appliance)
    answer = json.loads(capsys.readouterr().out)
    cells: list[dict[str, Any]] = answer["cells"]
    assert (code, answer["failures"], [cell["judgement"]["invalid"] for cell in cells]) == (0, {}, [[]] * len(cells))
    assert cells
    return cells


def test_a_cell_over_ssh_equals_one_over_namespaces(
    three: Machines,
    appliance: Appliance,
    topology: Topology,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Its own: the cells run in another thread, and pyroute2 opens a socket in every thread that uses one.
    monkeypatch.setattr("emulator.control.local.local", lambda: Appliance(NetlinkKernel(), tmp_path))
    before = three.inside("far", "grep . /proc/sys/net/ipv4/tcp_*; ip route show dev lane0")
    grid = ["--tcp-profile", "founding", "--duration", "5", "--runs", str(tmp_path)]
    appliance.up(topology)
    over_ssh = swept(grid, appliance, capsys)
    assert appliance.topology() == topology, "the lane was not returned"
    appliance.down()
    alike = tmp_path / "alike.yaml"
    alike.write_text(re.sub(r", ports.*}|hub_host.*\n", lambda found: "}" * (found[0][0] == ","), TOPOLOGY))
    in_namespaces = swept([*grid, str(alike)], appliance, capsys)
    for group, name in (("throughput", "steady_bytes_per_s"), ("throughput", "mean_bytes_per_s"), ("delays", "rtt_ns")):
        got, want = ([cell[group][name] for cell in cells] for cells in (over_ssh, in_namespaces))
        assert got == pytest.approx(want, rel=0.01), name
    assert three.inside("far", "grep . /proc/sys/net/ipv4/tcp_*; ip route show dev lane0") == before


def test_a_program_over_ssh_takes_as_long_as_between_namespaces(
    three: Machines,
    appliance: Appliance,
    topology: Topology,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The clock of the client's own machine counts, so that the way to it over SSH does not."""
    monkeypatch.setattr("emulator.control.local.local", lambda: Appliance(NetlinkKernel(), tmp_path))
    given = ["--tcp-profile", "default", "--runs", str(tmp_path), "--repeat", "2", *PROGRAM]
    appliance.up(topology)
    (over_ssh,) = swept(given, appliance, capsys)
    assert appliance.topology() == topology, "the lane was not returned"
    appliance.down()
    assert three.inside("far", "ls -d /tmp/longhaul-program-* 2>/dev/null || true; ss -tlnH 'sport = :7'") == ""
    alike = tmp_path / "alike.yaml"
    alike.write_text(re.sub(r", ports.*}|hub_host.*\n", lambda found: "}" * (found[0][0] == ","), TOPOLOGY))
    (in_namespaces,) = swept([*given, str(alike)], appliance, capsys)
    got, want = ([run["completion_ns"] for run in cell["program"]["runs"]] for cell in (over_ssh, in_namespaces))
    assert got == pytest.approx(want, abs=10**6)
    assert got == pytest.approx([80_000_000 * 2] * 2, abs=5 * 10**6)
    connections = [cell["program"]["runs"][0]["connections"] for cell in (over_ssh, in_namespaces)]
    assert [(len(one), one[0]["sent_bytes"], one[0]["received_bytes"]) for one in connections] == [(1, 5, 5)] * 2
    assert (over_ssh["program"]["frames"], bool(in_namespaces["program"]["frames"])) == (None, True)


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


REQUESTS = """
sweep:
  workload: {requests: {connections: 4, answer: [1KiB, 64KiB]}}
"""


def test_requests_over_ssh_equal_those_over_namespaces(
    appliance: Appliance,
    topology: Topology,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("emulator.control.local.local", lambda: Appliance(NetlinkKernel(), tmp_path))
    grid = ["--tcp-profile", "founding", "--duration", "5", "--runs", str(tmp_path), "--repeats", "1"]
    appliance.up(topology)
    over_ssh = swept([*grid, "--connections", "4", "--answer", "1KiB,64KiB"], appliance, capsys)
    appliance.down()
    alike = tmp_path / "alike.yaml"
    alike.write_text(re.sub(r", ports.*}|hub_host.*\n", lambda found: "}" * (found[0][0] == ","), TOPOLOGY) + REQUESTS)
    in_namespaces = swept([*grid, str(alike)], appliance, capsys)
    for name in ("p50_ns", "p99_9_ns", "count"):
        got, want = ([cell["requests"]["times"][name] for cell in cells] for cells in (over_ssh, in_namespaces))
        assert got == pytest.approx(want, rel=0.01), name
    assert [cell["judgement"]["kind"] for cell in over_ssh] == ["round trips"] * 2
    assert [cell["requests"]["answered"] for cell in over_ssh] == [252, pytest.approx(244, abs=8)]


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
