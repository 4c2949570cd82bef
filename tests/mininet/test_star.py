"""Our lanes in the real Mininet: every RTT exact, a transfer through them, nothing left afterwards."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from support.folders import ROOT

from emulator.config import loader
from emulator.errors import RefusedError

STAR = loader.load(ROOT / "topologies/new-york.yaml")
NARROW = """
name: narrow
hub: here
lanes:
  a-site-with-a-long-name: {rtt: 20ms, rate: 100Mbit, loss: 1%, mtu: 1400}
  other: {rtt: 10ms, mtu: 9000}
"""


def machine() -> tuple[Any, ...]:
    """The links, namespaces and processes there are, as programs that are none of ours tell them."""
    links = json.loads(subprocess.run(["ip", "-j", "link"], check=True, capture_output=True).stdout)
    names = subprocess.run(["ip", "netns"], check=True, capture_output=True).stdout
    lines = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    processes = sorted(line for line in lines if line)
    return sorted((link["ifname"], link["mtu"]) for link in links), names, processes


def test_the_matrix_is_exact_and_nothing_is_left() -> None:
    from emulator import mininet

    before = machine()
    with mininet.running(STAR) as net:
        for one, other in combinations([STAR.hub, *STAR.sites], 2):
            said = net.get(one).cmd("ping -3 -n -c 4 -i 0.5", net.get(other).IP())
            least_ms = min(float(ms) for ms in re.findall(r"time=([\d.]+) ms", said))
            assert abs(least_ms - STAR.rtt_ns(one, other) / 1e6) < 0.010, said
    assert machine() == before


def test_the_documented_recipe_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "emulator/docs/integrations.md"
    recipe = re.search(r"```python\n(.*?emulator\.mininet.*?)```", page.read_text(), re.DOTALL)
    before = machine()
    monkeypatch.chdir(ROOT)
    exec(compile(recipe[1], str(page), "exec"), {})
    assert machine() == before


def test_a_transfer_takes_the_bottlenecks_rate() -> None:
    from emulator import mininet

    topology = loader.loads(NARROW.replace(", loss: 1%", ""))
    site = topology.sites[0]
    with mininet.running(topology) as net:
        hub, far = net.get("here", site)
        far.cmd("iperf3 -s -1 -D")
        answer = json.loads(hub.cmd("sleep 1; iperf3 -J -t 10 -c", far.IP()))
    # 1348 of every 1414 bytes of a frame are payload.
    assert answer["end"]["sum_received"]["bits_per_second"] == pytest.approx(100e6 * 1348 / 1414, rel=0.02)


def test_loss_and_mtu_hold_too() -> None:
    from emulator import mininet

    topology = loader.loads(NARROW)
    with mininet.running(topology) as net:
        far, other = net.get(*topology.sites)
        said = net.get("here").cmd("ping -q -i 0.01 -c 400", far.IP())
        lost = 400 - int(re.search(r"(\d+) received", said)[1])
        assert 1 < lost < 20, said  # 1% there, 1% back
        assert "mtu 1400" in far.cmd("ip link show eth0")
        assert "gso_max_segs 1 " in far.cmd("ip -d link show eth0")
        assert "1 received" in net.get("here").cmd("ping -M do -s 8972 -c 1", other.IP())


def test_a_schedule_is_played_until_the_network_stops(capfd: pytest.CaptureFixture[str]) -> None:
    from emulator import mininet

    keys = "{at: 0s, rtt: 40ms}, {at: 10s, rtt: 120ms}, {at: 20s, rtt: 60ms}"
    lanes = f"lanes: {{near: {{rtt: 80ms}}}}, schedule: {{tracks: [{{keys: [{keys}]}}]}}"
    before, begun = machine(), set(threading.enumerate())
    with mininet.running(loader.loads(f"{{name: x, hub: here, {lanes}}}")) as net:
        hub, near, said = net.get("here"), net.get("near"), []
        for _ in range(3):
            time.sleep(5)
            said.append(re.findall(r"time=(\d+)", hub.cmd("ping -c 2", near.IP()))[-1])
            time.sleep(5)
    assert said == ["40", "120", "60"]
    assert (machine(), set(threading.enumerate())) == (before, begun)
    assert "level=" not in capfd.readouterr().err


def test_beside_another_topology_it_is_refused() -> None:
    from emulator import mininet
    from emulator.control.local import local

    before, appliance = machine(), local()
    appliance.up(STAR)
    try:
        with pytest.raises(RefusedError, match="new-york is up here: take it down first"):
            mininet.StarNet(STAR)
    finally:
        appliance.down()
        appliance.close()
    assert machine() == before


def test_when_the_lanes_do_not_come_up_mininet_is_stopped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from emulator import mininet
    from emulator.control.appliance import Appliance

    def fail(*_: object) -> None:
        raise RefusedError("injected")

    before = machine()
    monkeypatch.setattr(Appliance, "up", fail)
    with pytest.raises(RefusedError, match="injected"), mininet.running(STAR):
        pass
    assert machine() == before
