"""Hosts without any: who reaches whom, ssh's failures in our words, routes, what the shell completes."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from support.folders import ROOT

from emulator.cli import main
from emulator.config import loader
from emulator.errors import InputError, MeasureError, MissingError
from emulator.experiment import grid, rtt_certificate
from emulator.hosts import resolve, route_metrics, saved_settings
from emulator.hosts.host import listens
from emulator.hosts.route_metrics import NONE, Metrics
from emulator.hosts.ssh_connection import Connection, advice
from emulator.model.topology import check_destination

OVER_SSH = """
name: over-ssh
hub: here
hub_host: root@hub
lanes:
  near: {rtt: 20ms, ports: {hub: a, site: b}, host: near.example.org}
  far: {rtt: 80ms, ports: {hub: c, site: d}, host: far, address: 10.77.0.9}
  dark: {rtt: 9ms, ports: {hub: e, site: f}}
"""
VIRTUAL = "{name: virtual, hub: here, lanes: {near: {rtt: 20ms}, far: {rtt: 80ms}}}"


def test_ssh_hosts_reach_one_another_and_a_lane_without_one_is_left_out() -> None:
    topology = loader.loads(OVER_SSH)
    assert resolve.destinations(topology) == {"here": "root@hub", "near": "near.example.org", "far": "far"}
    assert rtt_certificate.pairs(topology) == [("here", "near"), ("here", "far"), ("near", "far")]
    assert rtt_certificate.pairs(topology, ["near"]) == [("here", "near"), ("near", "far")]
    assert topology.rtt_ns("near", "far") == 100_000_000
    assert str(topology.address("far")) == "10.77.0.9/24"


def test_sites_alone_reach_one_another() -> None:
    without_hub = loader.loads(OVER_SSH.replace("hub_host: root@hub\n", ""))
    assert rtt_certificate.pairs(without_hub) == [("near", "far")]
    mixed = OVER_SSH.replace("hub_host: root@hub\n", "") + "  cloud: {rtt: 1ms}\n"
    assert rtt_certificate.pairs(loader.loads(mixed)) == [("here", "cloud"), ("near", "far")]


def test_the_documented_topology_of_ssh_hosts_is_valid() -> None:
    text = (ROOT / "emulator/docs/hosts.md").read_text()
    shown = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert shown
    topology = loader.loads(shown[1])
    assert resolve.destinations(topology) == {"new-york": "root@hub.lab", "japan": "tokyo"}
    assert str(topology.address("japan").ip) == "10.77.0.2"


@pytest.mark.parametrize("text", ["{", "[]", '{"namespace": "lh-far"}'])
def test_a_spoilt_record_of_a_host_stops_one_measurement_and_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(saved_settings, "FOLDER", tmp_path)
    file = tmp_path / "lh-far.json"
    file.write_text(text)
    reason = f"; it is now {file}.spoilt; its host may still have the settings of a measurement"
    with pytest.raises(MeasureError, match=re.escape(reason)), saved_settings.at_work("lh-near"):
        pass
    assert (tmp_path / "lh-far.json.spoilt").read_text() == text
    with saved_settings.at_work("lh-near"):
        assert not file.exists()


def test_no_hosts_at_all_is_said() -> None:
    with pytest.raises(InputError, match="lonely has no two hosts to measure between: give its lanes a host"):
        resolve.groups(loader.loads("{name: lonely, hub: here, lanes: {x: {ports: {hub: a, site: b}}}}"))


def test_written_and_read_again() -> None:
    topology = loader.loads(OVER_SSH)
    assert loader.loads(loader.dumps(topology)) == topology


def test_a_cell_between_ssh_hosts_keeps_their_addresses() -> None:
    topology = loader.loads(OVER_SSH)
    names = topology.sites[:2]
    axes = grid.Axes(lane=names, tcp_profile=("default",), rate=(10**9,))
    near, far = grid.cells(grid.placed(topology, names, in_lab=False), axes, {"default": grid.tcp_profiles.DEFAULT})
    assert (near.topology.hub_host, near.lane.host, far.lane.ports) == (
        "root@hub",
        "near.example.org",
        topology.lanes[1].ports,
    )
    assert [str(spec.topology.address(spec.lane.name).ip) for spec in (near, far)] == ["10.77.0.2", "10.77.0.9"]
    with pytest.raises(InputError, match="dark: the lane has no host: add one, or choose other lanes"):
        grid.placed(topology, (), in_lab=False)


def test_in_namespaces_the_same_lanes_are_virtual() -> None:
    topology = loader.loads(OVER_SSH)
    base = grid.in_namespaces(topology)
    far = base.lane("far")
    assert (base.hub_host, far.host, far.ports, far.rtt_ns) == (None, None, None, 80_000_000)


@pytest.mark.parametrize("destination", ["host", "user@host", "me.too@10.0.0.1", "fe80::1%eth0", "alias_2"])
def test_destinations(destination: str) -> None:
    check_destination(destination)


@pytest.mark.parametrize("destination", ["", "-oProxyCommand=x", "a@-x", "a b", "a;b", "$(id)", "-a@b", "a@b\n"])
def test_what_is_no_destination(destination: str) -> None:
    with pytest.raises(ValueError, match="is not an SSH destination"):
        check_destination(destination)


def test_ssh_is_asked_to_be_quiet_quick_and_never_to_take_a_host_for_an_option() -> None:
    command = Connection("someone@far", Path("/nowhere/s")).command([], ["echo", "$HOME"], as_root=True)
    assert command[0] == "ssh"
    assert command[-3:] == ["--", "someone@far", "sudo -n env LC_ALL=C echo '$HOME'"]
    assert {"BatchMode=yes", "ControlPath=/nowhere/s", "ConnectTimeout=10"} <= set(command)


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
         "its host key has changed: find out why, then ssh-keygen -R h (Host key verification failed.)"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED\n  remove with:\n  ssh-keygen -f '/a b/known' -R '10.0.0.1'\r\nno",
         "its host key has changed: find out why, then ssh-keygen -f '/a b/known' -R '10.0.0.1' (no)"),
        ("ssh: connect to host h port 22: Connection timed out",
         "it does not answer: is it running, and is there a route to it apart from the lane? "
         "(ssh: connect to host h port 22: Connection timed out)"),
        ("kex_exchange_identification: read: gibberish",
         "kex_exchange_identification: read: gibberish; try by hand: ssh -v me@h"),
        ("", "ssh printed nothing; try by hand: ssh -v me@h"),
    ],
)  # fmt: skip
def test_failures_of_ssh(said: str, reported: str) -> None:
    assert advice(said, "me@h") == reported


def test_a_route_keeps_its_priority_and_its_other_metrics() -> None:
    shown = '[{"dst":"10.0.0.0/8","prefsrc":"10.0.0.1","metric":100,"metrics":[{"initcwnd":9,"advmss":1400}]}]'
    (found,) = route_metrics.parse(shown, "eth1")
    same = "ip route change 10.0.0.0/8 dev eth1 proto kernel scope link src 10.0.0.1 metric 100 advmss 1400"
    assert found.change_argv(NONE) == same.split()
    assert found.change_argv(Metrics(40)) == f"{same} initcwnd 40".split()


def test_who_listens() -> None:
    heading = "  sl  local_address rem_address   st\n"
    assert listens(heading + "   0: 00000000:1451 00000000:0000 0A", 5201)
    assert not listens(heading + "   0: 0200007F:1451 0100007F:8B2A 01", 5201)
    assert not listens("", 5201)


class Up:
    """Stands where the appliance would, with one topology up."""

    def topology(self) -> Any:
        return loader.loads(VIRTUAL)


def completed(words: Sequence[str], incomplete: str, obj: object) -> list[str]:
    complete = ShellComplete(main.cli, {"obj": obj}, "longhaul", "_LONGHAUL_COMPLETE")
    return [item.value for item in complete.get_completions(list(words), incomplete)]


@pytest.mark.parametrize("words", [["set"], ["verify"], ["sweep", "--lane"]])
def test_the_shell_completes_the_lanes_that_are_up(words: list[str]) -> None:
    assert completed(words, "", Up()) == ["near", "far"]
    assert completed(words, "f", Up()) == ["far"]


def test_the_shell_completes_the_lanes_of_the_file_and_none_twice(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(OVER_SSH)
    assert completed(["sweep", str(tmp_path / "t.yaml"), "--lane"], "", Up()) == ["near", "far", "dark"]
    assert completed(["sweep", str(tmp_path / "none.yaml"), "--lane"], "", Up()) == []
    assert completed(["verify", "near"], "", Up()) == ["far"]
    assert completed(["sweep", str(tmp_path / "t.yaml"), "--lane"], "near,d", Up()) == ["near,dark"]
    assert completed(["sweep", str(tmp_path / "t.yaml"), "--lane"], "near,", Up()) == ["near,far", "near,dark"]


def test_an_unknown_lane_is_refused_before_anything_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    class Status(Up):
        def status(self) -> Any:
            return type("S", (), {"topology": self.topology()})()

    assert main.main(["verify", "nowhere"], obj=Status()) == 2
    assert capsys.readouterr().err == "LANE: there is no lane 'nowhere': use near or far\n"


def test_without_mininet_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mininet", None)
    with pytest.raises(MissingError, match=r"^Mininet is not installed for this Python: apt-get install mininet$"):
        importlib.import_module("emulator.mininet")


def test_the_keeper_is_posix_shell() -> None:
    script = Path(resolve.__file__).with_name("restore_guard.sh")
    for shell in ("dash", "bash"):
        if shutil.which(shell):
            assert subprocess.run([shell, "-n", script], check=False).returncode == 0
