"""`longhaul schedule run` on the real kernel, without the daemon: a port is pulled out amid the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.folders import ROOT
from support.handmade_nics import sh

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.system.timer import RealAlarm

MS, S = 10**6, 10**9
FILE = """
name: x
hub: hub
lanes:
  a: {rtt: 80ms, ports: {hub: nic0, site: nic1}}
  b: {rtt: 80ms, ports: {hub: nic2, site: nic3}}
schedule: {tracks: [{keys: [{at: 0s, rtt: 40ms}, {at: 10s, rtt: 120ms}, {at: 20s, rtt: 60ms}]}]}
"""


@pytest.fixture(autouse=True)
def nics() -> Iterator[None]:
    """nic0 to nic3, each with a far end."""
    for n in range(4):
        sh(f"ip link add nic{n} type veth peer name far{n}")
    yield
    for n in range(3):
        sh(f"ip link del nic{n}")


def delays_ms(appliance: Appliance) -> list[float]:
    """What the kernel has outbound on each lane that is up."""
    netems = [lane.outbound.netem for lane in appliance.status().lanes]
    return [netem.delay_ns / MS for netem in netems if netem]


def test_the_other_lanes_follow_the_schedule_and_the_end_returns_them(appliance: Appliance, tmp_path: Path) -> None:
    (file := tmp_path / "x.yaml").write_text(FILE)
    argv = [sys.executable, "-m", "emulator", "schedule", "run", str(file), "--for", "25s", "--json"]
    env, alarm = {**os.environ, "LONGHAUL_STATE": str(appliance.state_dir)}, RealAlarm()
    began_ns, seen = alarm.now_ns(), []
    with subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        for at_s in (5, 15, 24):
            alarm.sleep_until(began_ns + at_s * S)
            seen.append(delays_ms(appliance))
            if at_s == 5:
                sh("ip link del nic3")
        out, err = run.communicate()
    assert (run.returncode, seen) == (0, [[20, 20], [60], [30]]), err
    late = json.loads(out)
    # The change is prepared before it is due, so that even the one that failed is on time.
    assert (late["changes"], late["skipped"], late["max_ns"]) == (2, 0, 0)
    gone = "port nic3: there is no such interface; 'longhaul nics' lists them"
    assert err.splitlines() == [
        f"warning: the schedule goes on without the lane b: {gone}",
        f"warning: lane b cannot be reverted and stays as it is: {gone}",
    ]
    ended = loader.loads(FILE.replace(FILE[FILE.index("schedule:") :], ""))
    assert (appliance.topology(), delays_ms(appliance)) == (ended, [40])
