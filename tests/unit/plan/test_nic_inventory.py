"""The machine's ports: found by any of their names, listed with their reasons, and made into a topology."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.fake_machines import NIC, appliance_box
from support.folders import GOLDEN

from emulator.cli import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.errors import InputError
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.model.loss_model import GilbertElliott
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.desired_state import resolve, unresolved, wanted
from emulator.plan.netem_lowering import common_netem, lower, needs_single_packets, netem_of_queue, spread
from emulator.plan.nic_inventory import free_pairs, nic_rows, propose
from emulator.plan.qdisc_values import Netem
from emulator.plan.state import MERGING, Origin

MS = 10**6


@pytest.mark.parametrize(
    ("name", "ports"),
    [
        ("eth1", ["eth1"]),
        ("uplink", ["eth1"]),
        ("02:00:00:00:00:02", ["eth2"]),
        ("02:00:00:00:00:0a".upper(), ["eth3"]),
        ("0000:04:00.0", ["eth4"]),
        ("02:00:00:00:00:05", ["eth5", "eth6"]),
        ("02:00:00:00:00:bb", ["eth6"]),
        ("eth9", []),
        ("", []),
    ],
)
def test_a_port_answers_to_its_names(name: str, ports: list[str]) -> None:
    kernel = appliance_box()
    kernel.nics["eth3"] = replace(kernel.nics["eth3"], permanent_mac="02:00:00:00:00:0a")
    kernel.nics["eth6"] = replace(kernel.nics["eth6"], mac="02:00:00:00:00:05", permanent_mac="02:00:00:00:00:bb")
    assert resolve(name, kernel.observe()) == ports


def test_a_port_keeps_its_names_while_it_is_ours(tmp_path: Path) -> None:
    appliance = Appliance(appliance_box(), tmp_path)
    star = Topology("s", "hub", (Lane("japan", ports=Ports("uplink", "0000:02:00.0")),))
    assert appliance.up(star)
    assert appliance.up(star) == []
    assert appliance.status().drift == []
    assert appliance.status().lanes[0].outbound.port == "eth2"
    assert appliance.topology() == star


def test_two_names_of_one_port_are_found_out() -> None:
    star = Topology("s", "hub", (Lane("japan", ports=Ports("uplink", "eth1")),))
    assert unresolved(star, appliance_box().observe()) == [
        "port eth1: named twice, as uplink and as eth1: use two ports"
    ]


def test_a_card_that_is_gone_leaves_a_status(tmp_path: Path) -> None:
    kernel = appliance_box()
    appliance = Appliance(kernel, tmp_path)
    appliance.up(Topology("s", "hub", (Lane("japan", ports=Ports("02:00:00:00:00:01", "eth2")),)))
    kernel.nics["eth2"] = replace(kernel.nics["eth2"], mac="02:00:00:00:00:01")
    assert appliance.status().lanes
    del kernel.ports["eth1"], kernel.nics["eth1"]
    assert appliance.status().lanes


def test_only_vlans_share_ports() -> None:
    def star(*ports: Ports) -> Topology:
        return Topology("s", "hub", tuple(Lane(f"site{n}", ports=p) for n, p in enumerate(ports)))

    assert star(Ports("a", "b", 1), Ports("a", "b", 2), Ports("c", "d")).sites
    for wrong in ((Ports("a", "b", 1), Ports("b", "a", 1)), (Ports("a", "b"), Ports("a", "b", 2))):
        with pytest.raises(ValueError, match="port used twice: a, b"):
            star(*wrong)
    with pytest.raises(ValueError, match="vlan 4095 is not within"):
        Ports("a", "b", 4095)


def test_a_vlan_lane_survives_its_file() -> None:
    star = Topology("s", "hub", (Lane("japan", ports=Ports("a", "b", 7)),))
    assert loader.loads(loader.dumps(star)) == star
    with pytest.raises(InputError, match="vlan 0 is not within"):
        loader.loads("{name: s, hub: h, lanes: {a: {rtt: 1ms, ports: {hub: x, site: y, vlan: 0}}}}")


@pytest.mark.parametrize("bits", range(8))
def test_a_mark_tells_what_a_port_was_like(bits: int) -> None:
    offloads = frozenset(name for place, name in enumerate(MERGING) if bits >> place & 1)
    origin = Origin(bool(bits & 1), bool(bits & 2), 3, bool(bits & 4), offloads)
    assert Origin.decode(f"longhaul.japan.hub.{origin.encode()}") == origin


@pytest.mark.parametrize("mark", ["longhaul.japan.hub.u1v1g0", "longhaul.x", "longhaul.a.hub.u1v1g0a1o8", "u2v1g0a1o1"])
def test_a_mark_that_is_none_is_an_error(mark: str) -> None:
    with pytest.raises(ValueError, match="is not a mark of Longhaul"):
        Origin.decode(mark)


@pytest.mark.parametrize(
    ("impairment", "queues", "single"),
    [
        (Impairment(MS), 4, False),
        (Impairment(MS, jitter_ns=9), 4, False),
        (Impairment(MS, loss_p32=1), 1, True),
        (Impairment(MS, rate_bps=10**10), 1, False),
        (Impairment(MS, rate_bps=10**8), 1, True),
        (Impairment(MS, loss_model=GilbertElliott(9, 9)), 1, True),
        (Impairment(MS, reorder_p32=1), 1, True),
        (Impairment(MS, rate_bps=10**10, overhead_bytes=22), 1, True),
        (Impairment(MS, rate_bps=10**10, aqm="codel"), 1, True),
        (Impairment(MS, jitter_ns=9, distribution="normal"), 4, False),
    ],
    ids=[
        "delay",
        "jitter",
        "loss",
        "fast-bottleneck",
        "slow-bottleneck",
        "bursts",
        "overtaking",
        "overhead",
        "codel",
        "normal",
    ],
)
def test_what_is_spread_over_queues_and_what_needs_single_packets(
    impairment: Impairment, queues: int, single: bool
) -> None:
    egress = lower(Lane("japan", impairment, impairment), seed=1, has_seed=True).outbound
    fanned = spread(impairment, egress, 4)
    assert (fanned.queues, needs_single_packets(impairment, egress)) == (queues, single)
    assert spread(impairment, egress, 1) == egress


def test_queues_are_alike_but_for_their_seeds() -> None:
    netem = Netem(delay_ns=5, seed=2**64 - 1)
    fanned = [netem_of_queue(netem, queue) for queue in range(3)]
    assert [one.seed for one in fanned] == [2**64 - 1, 0, 1]
    assert common_netem(fanned) == netem
    assert common_netem([*fanned[:2], replace(fanned[2], delay_ns=6)]) is None
    assert common_netem([]) is None
    assert common_netem([Netem()] * 2) == Netem()


def test_merging_stays_as_it_was_where_it_does_no_harm() -> None:
    kernel = appliance_box()
    kernel.nics["eth2"] = replace(kernel.nics["eth2"], offloads=frozenset())
    have = kernel.observe()
    star = Topology("s", "hub", (Lane("japan", ports=Ports("eth1", "eth2")),))
    ports = wanted(star, have).ports
    assert [ports[name].offloads for name in ("eth1", "eth2")] == [{"rx-gro", "rx-gro-hw"}, frozenset()]
    lossy = replace(star, lanes=(replace(star.lanes[0], outbound=Impairment(loss_p32=1)),))
    assert [wanted(lossy, have).ports[name].offloads for name in ("eth1", "eth2")] == [frozenset()] * 2


def test_the_list_counts_as_people_do() -> None:
    kernel = FakeKernel(
        {f"eth{n}": appliance_box().links["eth1"] for n in (10, 2, 1)}, dict.fromkeys(("eth10", "eth2", "eth1"), NIC)
    )
    assert [row.name for row in nic_rows(kernel.observe())] == ["eth1", "eth2", "eth10"]


def test_pairs_are_of_one_kind() -> None:
    kernel = appliance_box()
    kernel.nics["eth1"] = replace(NIC, speed_mbps=25_000)
    kernel.nics["eth4"] = replace(NIC, speed_mbps=25_000)
    pairs = free_pairs(nic_rows(kernel.observe()))
    assert [(a.name, b.name) for a, b in pairs] == [("eth1", "eth4"), ("eth2", "eth3"), ("eth5", "eth6")]
    star = propose("s", "hub", [("japan", 7 * MS)], pairs, "pci")
    assert star.lanes[0].line_rate_bps == 25 * 10**9
    with pytest.raises(ValueError, match="4 lanes need 8 free ports; this machine has 6"):
        propose("s", "hub", [(f"s{n}", MS) for n in range(4)], pairs, "name")


class Terminal:
    """The command line of a box with six free ports."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.capsys, self.kernel, self.folder = capsys, appliance_box(), folder
        self.appliance = Appliance(self.kernel, folder / "state", ("192.0.2.1",))

    def run(self, *args: str, code: int = 0) -> tuple[str, str]:
        """What a command prints on stdout and stderr."""
        assert main.main(args, obj=self.appliance) == code
        out, err = self.capsys.readouterr()
        return out, err


@pytest.fixture
def box(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Terminal:
    return Terminal(capsys, tmp_path)


def test_nics_tells_what_there_is_and_why_not(box: Terminal) -> None:
    file = str(box.folder / "star.yaml")
    box.run("init", file, "--rtt", "japan=346ms")
    box.run("up", file)
    assert box.run("nics")[0] == (GOLDEN / "nics.txt").read_text()
    rows = {row["name"]: row for row in json.loads(box.run("nics", "--json")[0])}
    assert rows["eth1"]["reasons"] == ["is a port already, of lh-japan"]
    assert rows["eth5"] | {"bus": None} == {
        "name": "eth5", "altnames": [], "mac": "02:00:00:00:00:05", "permanent_mac": None, "bus": None,
        "driver": "ixgbe", "speed_bps": 10**10, "up": True, "carrier": True, "numa_node": 0, "rx_queues": 4,
        "tx_queues": 4, "mtu": 1500, "offloads": ["rx-gro"], "owner": None, "usable": True, "reasons": [],
    }  # fmt: skip


def test_init_writes_what_up_can_read(box: Terminal) -> None:
    file = box.folder / "star.yaml"
    out, _ = box.run("init", str(file), "--hub", "pivot", "--rtt", "japan=346ms", "--rtt", "peru=90ms", "--by", "mac")
    assert out == f"{file}: 2 lanes; bring it up with longhaul up {file}\n"
    star = loader.load(file)
    assert (star.name, star.hub, star.sites) == ("star", "pivot", ("japan", "peru"))
    assert star.lanes[1].named_ports == ("02:00:00:00:00:03", "02:00:00:00:00:04")
    assert [lane.rtt_ns for lane in star.lanes] == [346 * MS, 90 * MS]
    box.run("up", str(file))


def test_init_asks_for_what_is_not_said(box: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["japan", "346ms", ""])
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: next(answers))
    file = box.folder / "star.yaml"
    box.run("init", str(file))
    assert loader.load(file).sites == ("japan",)


def test_init_overwrites_nothing_unasked(box: Terminal) -> None:
    file = box.folder / "star.yaml"
    file.write_text("mine")
    assert "exists already" in box.run("init", str(file), "--rtt", "japan=1ms", code=2)[1]
    assert file.read_text() == "mine"
    box.run("init", str(file), "--rtt", "japan=1ms", "--force")
    assert loader.load(file).sites == ("japan",)


@pytest.mark.parametrize(
    ("rtt", "said"),
    [
        ("japan", "is not a site and its RTT"),
        ("japan=32", "has no unit"),
        ("JAPAN=1ms", "is not a host name label"),
        ("hub=1ms", "named twice: hub"),
    ],
)
def test_init_says_what_is_wrong(box: Terminal, rtt: str, said: str) -> None:
    file = box.folder / "star.yaml"
    assert said in box.run("init", str(file), "--rtt", rtt, code=2)[1]
    assert not file.exists()


def test_init_needs_two_free_ports(box: Terminal) -> None:
    box.kernel.links = {name: replace(link, master="br0") for name, link in box.kernel.links.items()}
    assert "no two free ports" in box.run("init", str(box.folder / "a.yaml"), "--rtt", "japan=1ms", code=3)[1]


def test_a_warning_stops_nobody_and_is_in_the_json(box: Terminal) -> None:
    box.kernel.nics["eth1"] = replace(box.kernel.nics["eth1"], carrier=False)
    file = str(box.folder / "star.yaml")
    box.run("init", file, "--rtt", "japan=346ms")
    said = "port eth1: has no carrier: check the cable, and that the far end is up"
    assert box.run("plan", file)[1] == f"warning: {said}\n"
    assert json.loads(box.run("up", file, "--json")[0])["warnings"] == [said]


def test_tune_needs_a_port(box: Terminal) -> None:
    assert "no port is in use" in box.run("tune", "--dry-run", code=2)[1]
    assert box.run("tune", "nonesuch0", "--dry-run", code=2)[1] == "port nonesuch0: is not there\n"
    assert "name none" in box.run("tune", "--restore", "eth1", code=2)[1]
