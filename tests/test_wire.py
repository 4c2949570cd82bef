"""Lanes through the wire engine, on the fake kernel: what is asked for, planned, changed, refused and told."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from paper import appliance_box

from emulator import cli, ops, topologyfile
from emulator.appliance import Appliance
from emulator.errors import InputError, KernelError, RefusedError
from emulator.goal import datapath, nothing, wanted
from emulator.kernel import QueueCounters
from emulator.kernel.fake import FakeKernel
from emulator.model import Buffer, Impairment, Lane, Ports, Topology
from emulator.netem import Egress, Netem, Shaper
from emulator.plan import plan
from emulator.reconcile import apply
from emulator.refusal import refuse
from emulator.state import GSO_SEGMENTS, Link, State
from emulator.status import lane_status
from emulator.wire import DEAD, decode, decode_egress, encode, encode_egress, room_bytes, unknown

MS = 10**6
FAT = Impairment(delay_ns=125_000_001, rate_bps=10_000_000_000)
LOSSY = Impairment(delay_ns=300 * MS, jitter_ns=5, loss_p32=42, rate_bps=50_000_000, buffer=Buffer(packets=64))
LANES = (Lane("japan", FAT, LOSSY), Lane("england", LOSSY, FAT))
REAL = Lane("japan", FAT, FAT, ports=Ports("nic0", "nic1"))
TOPOLOGIES = [
    Topology("empty", "hub"),
    Topology("kernel", "hub", LANES, datapath="netem"),
    Topology("engine", "hub", LANES, datapath="wire"),
    Topology("other-numbers", "hub", (LANES[0].with_rtt(7 * MS), LANES[1]), datapath="wire"),
    Topology("passing", "hub", LANES[:1], datapath="wire", on_failure="pass"),
    Topology("jumbo", "hub", tuple(replace(lane, mtu=9000) for lane in LANES), datapath="wire"),
    Topology("real", "hub", (REAL,), datapath="wire"),
    Topology("real-kernel", "hub", (REAL,), datapath="netem"),
]


def machine(**known: bool) -> FakeKernel:
    links = {f"nic{n}": Link(mtu=1500, up=n == 1, ipv6=True, addrgen=0) for n in range(2)}
    return FakeKernel(links, nf_call=(1, 1, 0), **known)  # type: ignore[arg-type]


def go(kernel: FakeKernel, topology: Topology) -> State:
    have = kernel.observe()
    apply(kernel, wanted(topology, have), have)
    return kernel.observe()


def names(topology: Topology, have: State) -> list[str]:
    """The operations of a plan, by name."""
    return [type(step.op).__name__ for step in plan(wanted(topology, have), have)]


def test_a_lane_is_read_back_as_it_was_written() -> None:
    for topology in TOPOLOGIES[2:7]:
        for name, wire in wanted(topology, machine().observe()).wires.items():
            assert decode(json.loads(json.dumps(encode(name, wire)))) == wire


def test_the_engine_is_told_netems_own_numbers() -> None:
    wire = wanted(TOPOLOGIES[2], machine().observe()).wires["lh-japan"]
    told = encode("lh-japan", wire)
    assert (told["hub"], told["site"], told["bridge"], told["on_failure"]) == (
        "lhh-japan", "lhs-japan", "lh-japan", "cut",
    )  # fmt: skip
    assert told["outbound"]["delay_ns"] == 125_000_001
    assert told["inbound"]["loss_p32"] == 42
    assert told["inbound"]["rate"][:2] == [6_250_000, 64 * 1514]
    assert told["outbound"]["keep_order"] is True
    assert told["outbound"]["seed"] != told["inbound"]["seed"]


def test_room_is_what_is_in_flight_the_buffer_and_some_to_spare() -> None:
    lane = Lane("a", Impairment(100 * MS), Impairment(100 * MS, rate_bps=10**9, buffer=Buffer(bytes=10**6)))
    assert room_bytes(lane) == (150_000_000 + 2**26, 15_000_000 + 10**6 + 2**26)


def test_what_the_engine_cannot_do_is_named() -> None:
    known = Netem(gemodel=(1, 2, 3, 4), seed=2**64 - 1, reorder_p32=3, gap=1, ecn=True, corrupt_p32=1)
    assert unknown(Egress(known, Shaper(1000, 2, 3))) == []
    assert unknown(Egress(replace(known, loss_corr=1, slot=(1, 0, 0, 0, 0, 0)))) == ["loss_corr", "slot"]
    assert decode_egress(encode_egress(Egress(known), 5)) == Egress(known)


def test_what_the_engine_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.refusal.unknown", lambda egress: ["slot"] if egress.netem.loss_p32 else [])
    refuse(TOPOLOGIES[1], machine().observe())
    with pytest.raises(RefusedError) as refused:
        refuse(TOPOLOGIES[2], machine().observe())
    assert str(refused.value).splitlines()[0] == (
        "lane japan, inbound: the wire engine cannot do slot; choose datapath: netem"
    )


@pytest.mark.parametrize(
    ("wish", "missing"),
    [
        ("jitter: 1ms, distribution: normal", "distribution"),
        ("rate: 1Gbit, queue: codel", "queue"),
        ("rate: 1Gbit, overhead: 22B, cells: atm", "overhead_bytes, atm"),
        ("loss: 1% burst 5, duplicate: 1%, corrupt: 1%, reorder: 1%, jitter: 1ms", ""),
    ],
)
def test_what_a_file_asks_for_and_the_engine_cannot_do_is_refused(wish: str, missing: str) -> None:
    text = f"{{name: a, hub: h, datapath: wire, lanes: {{b: {{rtt: 10ms, {wish}}}}}}}"
    topology = topologyfile.loads(text)
    if not missing:
        return refuse(topology, machine().observe())
    with pytest.raises(RefusedError) as refused:
        refuse(topology, machine().observe())
    assert str(refused.value).splitlines() == [
        f"lane b, {way}: the wire engine cannot do {missing}; choose datapath: netem" for way in ("outbound", "inbound")
    ]
    return None


def test_auto_takes_netem_where_the_kernel_has_it() -> None:
    auto = Topology("t", "hub", LANES)
    for kernel, path in ((machine(), "netem"), (machine(has_netem=False), "wire")):
        assert datapath(auto, kernel.observe().machine) == path
        state = go(kernel, auto)
        assert bool(state.wires) == (path == "wire")
        assert all((port.egress is None) == (path == "wire") for n, port in state.ports.items() if n[2] in "hs")
        assert state.bridges["lh-japan"].up == (path == "netem")
        assert state.egress("lhs-japan") is not None


def test_the_engine_cuts_super_frames_itself() -> None:
    assert {v.segments for v in go(machine(), TOPOLOGIES[2]).veths.values()} == {GSO_SEGMENTS}
    assert {v.segments for v in go(machine(), TOPOLOGIES[1]).veths.values()} == {1, GSO_SEGMENTS}


def test_from_any_datapath_to_any_other() -> None:
    kernel, rng = machine(), random.Random(7)
    for _ in range(300):
        topology = rng.choice(TOPOLOGIES)
        state = go(kernel, topology)
        assert state == wanted(topology, state)
        if state.wires and rng.random() < 0.3:
            kernel.wires[rng.choice(sorted(state.wires))] = DEAD


@pytest.mark.parametrize("old", TOPOLOGIES, ids=lambda t: t.name)
@pytest.mark.parametrize("new", TOPOLOGIES, ids=lambda t: t.name)
def test_a_failure_at_any_step_leaves_all_as_it_was(old: Topology, new: Topology) -> None:
    base = machine()
    before = go(base, old)
    for step in range(len(plan(wanted(new, before), before))):
        kernel = machine()
        go(kernel, old)
        kernel.fail_at = len(kernel.log) + step
        with pytest.raises(KernelError):
            go(kernel, new)
        assert kernel.observe() == before


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: t.name)
def test_killed_at_any_step_the_next_up_converges_and_down_gives_all_back(topology: Topology) -> None:
    fresh = machine().observe()
    for step in range(len(plan(wanted(topology, fresh), fresh))):
        kernel = machine()
        have = kernel.observe()
        for done in plan(wanted(topology, have), have)[:step]:
            kernel.apply(done.op)
        state = go(kernel, topology)
        assert state == wanted(topology, state)
        apply(kernel, nothing(state), state)
        assert replace(kernel, log=[]) == machine()


BOX = Topology(
    "box", "hub", (
        Lane("queues", FAT, LOSSY, ports=Ports("eth5", "eth6")),
        Lane("tokyo", LOSSY, LOSSY, ports=Ports("uplink", "eth2", 10)),
        Lane("seoul", FAT, FAT, ports=Ports("uplink", "eth2", 20)),
    ), datapath="wire",
)  # fmt: skip


def test_nics_and_vlans_have_an_engine_for_each_lane_on_its_own_ports() -> None:
    kernel = appliance_box()
    fresh = kernel.observe()
    state = go(kernel, BOX)
    assert {name: (wire.hub, wire.site) for name, wire in state.wires.items()} == {
        "lh-queues": ("eth5", "eth6"),
        "lh-tokyo": ("lhvh-tokyo", "lhvs-tokyo"),
        "lh-seoul": ("lhvh-seoul", "lhvs-seoul"),
    }  # fmt: skip
    assert [name for name, port in state.ports.items() if port.egress] == []
    assert state.ports["eth1"].offloads == {"rx-gro", "rx-gro-hw"}
    assert names(BOX, state) == []
    for path in ("netem", "wire"):
        other = replace(BOX, datapath=path)
        assert wanted(other, go(kernel, other)) == kernel.observe()
    apply(kernel, nothing(kernel.observe()), kernel.observe())
    assert kernel.observe() == fresh
    assert kernel.nics == appliance_box().nics


def test_a_lane_whose_port_is_gone_ends_its_engine_and_no_other(tmp_path: Path) -> None:
    kernel = appliance_box()
    appliance = Appliance(kernel, tmp_path)
    appliance.up(replace(BOX, on_drift="restore"))
    before = kernel.observe()
    lost = kernel.ports.pop("eth6"), kernel.marked.pop("eth6")
    del kernel.nics["eth6"]
    kernel.wires["lh-seoul"] = DEAD
    kernel.log.clear()
    found = appliance.tend()
    assert list(found.blocked) == ["queues"]
    assert [str(op).split()[0] for op in kernel.log] == ["socat", "socat", "longhaul-wire"]
    assert kernel.wires == {n: w for n, w in before.wires.items() if n != "lh-queues"}
    kernel.links["eth6"], kernel.nics["eth6"] = lost[1], appliance_box().nics["eth6"]
    assert appliance.tend().blocked == {}
    assert kernel.observe() == before


def test_a_failure_does_not_bring_back_an_engine_that_was_dead() -> None:
    base = machine()
    go(base, TOPOLOGIES[2])
    for step in range(len(plan(wanted(TOPOLOGIES[5], base.observe()), base.observe()))):
        kernel = machine()
        before = go(kernel, TOPOLOGIES[2])
        kernel.wires["lh-japan"] = DEAD
        kernel.fail_at = len(kernel.log) + step
        with pytest.raises(KernelError, match="injected"):
            go(kernel, TOPOLOGIES[5])
        wires = {"lh-england": before.wires["lh-england"]}
        assert {n: w for n, w in kernel.wires.items() if w.running} == wires


def test_a_set_looks_at_the_engine_and_not_at_queues(tmp_path: Path) -> None:
    kernel = machine()
    appliance = Appliance(kernel, tmp_path)
    appliance.up(TOPOLOGIES[2])
    steps = appliance.set_lane(LANES[0].with_rtt(7 * MS))
    assert [type(step.op).__name__ for step in steps] == ["SetWire"]
    kernel.wires["lh-england"] = DEAD
    steps = appliance.set_lane(LANES[0])
    assert [type(step.op).__name__ for step in steps] == ["StopWire", "StartWire", "SetWire"]


class Watching(FakeKernel):
    """A fake that fails the test as soon as any frame could cross a lane unimpaired."""

    def apply(self, op: ops.Op) -> None:
        super().apply(op)
        for name, bridge in self.bridges.items():
            inside = {n: p for n, p in self.ports.items() if p.bridge == name and p.up and not n.startswith("lhx")}
            if bridge.up and len(inside) == 2:
                assert all(port.egress for port in inside.values()), op


@pytest.mark.parametrize("new", TOPOLOGIES[1:3] + TOPOLOGIES[6:], ids=lambda t: t.name)
@pytest.mark.parametrize("old", TOPOLOGIES, ids=lambda t: t.name)
def test_no_frame_ever_passes_unimpaired(old: Topology, new: Topology) -> None:
    known = machine()
    kernel = Watching(known.links, nf_call=known.nf_call)
    go(kernel, old)
    go(kernel, new)


def test_new_numbers_are_one_step_and_another_failure_mode_a_new_engine() -> None:
    kernel = machine()
    state = go(kernel, TOPOLOGIES[2])
    assert names(TOPOLOGIES[3], state) == ["SetWire"]
    assert names(replace(TOPOLOGIES[2], on_failure="pass"), state) == ["StopWire", "StopWire", "StartWire", "StartWire"]


def test_an_engine_that_died_is_started_again_and_its_bridge_closed_first() -> None:
    kernel = machine()
    go(kernel, TOPOLOGIES[4])
    kernel.wires["lh-japan"] = DEAD
    kernel.bridges["lh-japan"] = replace(kernel.bridges["lh-japan"], up=True)
    assert kernel.observe().egress("lhs-japan") is None
    assert names(TOPOLOGIES[4], kernel.observe()) == ["StopWire", "WireBridge", "StartWire"]


def test_room_counts_against_the_machines_memory() -> None:
    kernel = machine()
    kernel.memory_bytes = 2**28
    with pytest.raises(RefusedError, match="lower rate, RTT or buffer"):
        refuse(Topology("t", "hub", LANES[:1], datapath="wire"), kernel.observe())


def test_the_engine_tells_loss_and_our_own_drops_apart() -> None:
    state = go(machine(), TOPOLOGIES[2])
    counted = {"lhh-japan": QueueCounters(9, 99, drops=10, queued_packets=0, queued_bytes=0, shaper_drops=3, lost=5)}
    inbound = lane_status(LANES[0], state, counted).inbound.counters
    assert (inbound.drops_limit, inbound.drops_buffer, inbound.drops_loss) == (2, 3, 5)


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    appliance = Appliance(FakeKernel(has_netem=False), tmp_path)

    def run(*args: str) -> str:
        assert cli.main(args, obj=appliance) == 0
        return capsys.readouterr().out

    return run


def test_status_says_which_datapath_runs(terminal: Callable[..., str]) -> None:
    terminal("up", "topologies/new-york.yaml")
    assert terminal("status").startswith("new-york: 3 lanes through the wire engine\n")
    answer = json.loads(terminal("status", "--json"))
    assert (answer["datapath"], answer["lanes"][2]["outbound"]["delay_ns"]) == ("wire", 173 * MS)
    assert terminal("set", "california", "--rtt", "40ms") == "california is at 40 ms: 1 step\n"
    assert terminal("plan", "topologies/new-york.yaml").startswith(
        "socat - /run/longhaul/wire/lh-california.sock <<< '{"
    )


def test_a_topology_says_its_datapath() -> None:
    text = "name: a\nhub: h\ndatapath: wire\non_failure: pass\nlanes: {b: {rtt: 2ms}}\n"
    topology = topologyfile.loads(text)
    assert (topology.datapath, topology.on_failure) == ("wire", "pass")
    assert topologyfile.loads(topologyfile.dumps(topology)) == topology
    with pytest.raises(InputError) as wrong:
        topologyfile.loads(text.replace("wire", "wifi"), "x.yaml")
    assert str(wrong.value) == "x.yaml:3: datapath: 'wifi' is not one of auto, netem, wire"
    with pytest.raises(ValueError, match="not one of"):
        Topology("a", "h", on_failure="explode")
