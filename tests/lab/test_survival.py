"""What a box goes through in a year, in real processes: a dead CLI, a watchdog that repairs, is killed and restarts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from support import oracle
from support.folders import ROOT

from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.control.reconcile import apply
from emulator.kernel.netlink import NetlinkKernel
from emulator.plan.desired_state import nothing, wanted
from emulator.plan.state import State
from emulator.system.clock import SystemClock

STAR = ROOT / "topologies/new-york.yaml"
GLANCE_S = 0.0001
DIES_AT_ITS_TWENTIETH_STEP = """
import os, signal, sys
from emulator.cli.main import main
from emulator.kernel.netlink import NetlinkKernel

plain, done = NetlinkKernel.apply, []

def apply(self, op):
    plain(self, op)
    done.append(op)
    if len(done) == 20:
        os.kill(os.getpid(), signal.SIGKILL)

NetlinkKernel.apply = apply
sys.exit(main(sys.argv[1:]))
"""
RESTORING = """
name: box
hub: hub
on_drift: restore
lanes:
  california: {rtt: 32ms, ports: {hub: nic0, site: nic1}}
  london: {rtt: 80ms, rate: 10Gbit}
  japan: {rtt: 346ms, rate: 10Gbit}
"""


class Box:
    """A machine with two network cards; `start` runs the command line on it."""

    def __init__(self, kernel: NetlinkKernel, folder: Path) -> None:
        self.kernel, self.store, self.folder = kernel, IntentStore(folder), folder
        self.appliance = Appliance(kernel, folder)
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, *args: str, program: Sequence[str] = ("-m", "emulator")) -> subprocess.Popen[bytes]:
        log = (self.folder.parent / "log").open("ab")
        env = {**os.environ, "LONGHAUL_STATE": str(self.folder)}
        argv = [sys.executable, *program, *args]
        process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.running.append(process)
        return process

    def log(self) -> str:
        return (self.folder.parent / "log").read_text()

    def as_asked(self) -> bool:
        have, topology = self.kernel.observe(), self.appliance.topology()
        return topology is not None and have == wanted(topology, have)

    def stop(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


def until(ready: Callable[[], bool], within_s: float = 60, every_s: float = GLANCE_S) -> float:
    """How long it took, in s of virtual time."""
    begin = time.monotonic()
    while not ready():
        assert time.monotonic() < begin + within_s, "it does not happen"
        time.sleep(every_s)
    return time.monotonic() - begin


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    oracle.sh("ip netns add far")
    for name in ("nic0", "nic1"):
        oracle.sh(f"ip link add {name} type veth peer name {name} netns far; ip link set {name} up")
    with closing(NetlinkKernel()) as kernel:
        box = Box(kernel, tmp_path / "state")
        yield box
        box.stop()
        box.appliance.down()
    oracle.sh("ip netns del far")


@pytest.fixture
def watched(box: Box) -> Box:
    """A box with its lanes up and a watchdog that restores."""
    file = box.folder.parent / "box.yaml"
    file.write_text(RESTORING)
    assert box.start("up", str(file)).wait() == 0
    box.start("daemon")
    until(lambda: "event=watching" in box.log())
    return box


def test_the_revert_comes_on_time_though_its_cli_was_killed(box: Box) -> None:
    cli = box.start("up", str(STAR), "--confirm", "60s", program=("-c", DIES_AT_ITS_TWENTIETH_STEP))
    assert cli.wait() == -signal.SIGKILL
    assert box.kernel.observe() != State()
    pending = box.store.read().pending
    assert pending and pending.base is None
    # Intent first, the kernel after it.
    until(lambda: box.store.read().pending is None and box.kernel.observe() == State(), 100, 0.001)
    late_s = (SystemClock().boottime_ns() - pending.deadline_ns) / 1e9
    assert 0 <= late_s < 0.1
    assert box.appliance.history(1)[0].author.command == "revert"


def test_confirmed_in_time_it_stays_and_the_reverter_goes(box: Box) -> None:
    assert box.start("up", str(STAR), "--confirm", "60s").wait() == 0
    time.sleep(50)
    assert reverters() == 1
    assert box.start("confirm").wait() == 0
    until(lambda: reverters() == 0, every_s=0.1)
    time.sleep(60)
    assert box.as_asked()


def reverters() -> int:
    return sum("emulator.control.revert_process" in words for words in oracle.sh("ps -eo args").splitlines())


FOREIGN_HANDS = {
    "a qdisc deleted": "tc qdisc del dev lhs-japan root",
    "a qdisc changed": "tc qdisc change dev lhs-japan root handle 1: netem delay 1ms",
    "a port down": "ip link set lhh-japan down",
    "a port taken out": "ip link set lhh-japan nomaster",
    "a bridge deleted": "ip link del lh-japan",
    "a pair deleted": "ip link del lhs-japan",
}


def test_the_watchdog_repairs_within_a_millisecond_and_disturbs_no_other_lane(watched: Box) -> None:
    assert watched.as_asked()
    ping = ["ip", "netns", "exec", "lh-hub", "ping", "-q", "-i", "0.01", "-c", "3000", london(watched)]
    with subprocess.Popen(ping, stdout=subprocess.PIPE, text=True) as pings:
        took_s = {}
        for what, command in FOREIGN_HANDS.items():
            time.sleep(3)
            oracle.sh(command)
            took_s[what] = until(watched.as_asked)
        out, _ = pings.communicate()
    assert "3000 received, 0% packet loss" in out
    assert max(took_s.values()) < 0.005, took_s


def london(box: Box) -> str:
    topology = box.appliance.topology()
    assert topology
    return str(topology.address("london").ip)


def test_a_card_that_goes_and_comes_back_gets_its_lane_again(watched: Box) -> None:
    before = watched.kernel.observe()
    oracle.sh("ip link del nic1")
    until(lambda: "event=blocked" in watched.log(), every_s=0.01)
    gone = "port nic1: there is no such interface; 'longhaul nics' lists them"
    assert json.loads(status(watched, 8))["blocked"] == {"california": gone}
    assert watched.kernel.observe().ports.keys() == before.ports.keys() - {"nic1"}
    oracle.sh("ip link add nic1 type veth peer name nic1 netns far; ip link set nic1 up")
    until(watched.as_asked, every_s=0.01)


def status(box: Box, code: int) -> str:
    env = {**os.environ, "LONGHAUL_STATE": str(box.folder)}
    argv = [sys.executable, "-m", "emulator", "status", "--json"]
    ran = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    return ran.stdout


def test_killed_it_starts_again_and_after_a_reboot_the_lanes_come_up(watched: Box) -> None:
    daemon = watched.running[-1]
    daemon.kill()
    daemon.wait()
    have = watched.kernel.observe()
    apply(watched.kernel, nothing(have), have)  # as a reboot does: the intent stays, the kernel forgets
    oracle.sh("ip link set nic0 up; ip link set nic1 up")
    again = watched.start("daemon")
    until(watched.as_asked, every_s=0.01)
    until(lambda: watched.log().count("event=watching") == 2, every_s=0.01)
    again.terminate()
    assert again.wait() == 0
    assert watched.as_asked()


def test_the_founding_four_scripts(box: Box) -> None:
    env = {**os.environ, "LONGHAUL_STATE": str(box.folder), "LONGHAUL_TOPOLOGY": str(STAR)}
    tools = box.folder.parent / "bin"
    tools.mkdir()
    (tools / "longhaul").write_text(f'#!/bin/sh\nexec {sys.executable} -m emulator "$@"\n')
    (tools / "longhaul").chmod(0o755)
    env["PATH"] = f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin"
    seen = []
    for script in ("bridges-up", "latency-off", "latency-on", "latency-off japan", "bridges-up", "bridges-down"):
        subprocess.run(f"{ROOT}/scripts/{script}", shell=True, env=env, check=True, stdout=subprocess.DEVNULL)
        ports = box.kernel.observe().ports
        egresses = [ports[name].egress for name in ("lhs-california", "lhs-japan") if name in ports]
        seen.append([egress.netem.delay_ns // 10**6 for egress in egresses if egress])
        asked = box.appliance.topology()
        assert asked is None or [lane.rtt_ns // 10**6 for lane in asked.lanes] == [32, 80, 346]
    assert seen == [[16, 173], [0, 0], [16, 173], [16, 0], [16, 173], []]
