"""Lanes through the wire engine: how they are asked for, told to the engine, refused, and shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.engine_topologies import LANES, MS, TOPOLOGIES, machine
from support.fault_injection import go

from emulator.cli import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.status import lane_status
from emulator.errors import InputError, RefusedError
from emulator.kernel import engine_client
from emulator.kernel.fake import FakeKernel
from emulator.kernel.protocol import QueueCounters
from emulator.model.flow_match import Match, filters
from emulator.model.impairment import LONGEST_DELAY_NS, Buffer, Impairment
from emulator.model.jitter_distribution import named
from emulator.model.topology import Flow, Lane, Topology
from emulator.plan.aqm import Codel
from emulator.plan.desired_state import wanted
from emulator.plan.engine_lane import decode, decode_egress, encode, encode_egress, lane_memory_bytes, unknown
from emulator.plan.engine_ops import SetWire
from emulator.plan.preconditions import DUPLICATES_WITH_FLOWS, refuse
from emulator.plan.qdisc_values import Band, Egress, Netem, Shaper
from emulator.plan.small_frames import datapath
from emulator.plan.state import GSO_SEGMENTS


def test_a_lane_is_read_back_as_it_was_written() -> None:
    for topology in TOPOLOGIES[2:7]:
        for name, wire in wanted(topology, machine().observe()).wires.items():
            assert decode(json.loads(json.dumps(encode(name, wire)))) == wire


def test_the_engine_is_told_netems_own_numbers() -> None:
    wire = wanted(TOPOLOGIES[2], machine().observe()).wires["lh-japan"]
    reported = encode("lh-japan", wire)
    assert (reported["hub"], reported["site"], reported["bridge"], reported["on_failure"]) == (
        "lhh-japan", "lhs-japan", "lh-japan", "cut",
    )  # fmt: skip
    outbound, inbound = reported["outbound"]["settings"], reported["inbound"]["settings"]
    assert outbound["delay_ns"] == 125_000_001
    assert inbound["loss_p32"] == 42
    assert (inbound["rate"]["bytes_per_s"], inbound["rate"]["buffer_bytes"]) == (6_250_000, 64 * 1514)
    assert outbound["keep_order"] is True
    assert outbound["seed"] != inbound["seed"]


def test_room_is_what_is_in_flight_the_buffer_and_some_to_spare() -> None:
    lane = Lane("a", Impairment(100 * MS), Impairment(100 * MS, rate_bps=10**9, buffer=Buffer(bytes=10**6)))
    assert lane_memory_bytes(lane) == (150_000_000 + 2**26, 15_000_000 + 10**6 + 2**26)


def test_room_is_shared_by_the_flows_as_far_as_the_line_goes() -> None:
    fast, slow = Impairment(100 * MS), Impairment(300 * MS, rate_bps=10**9, buffer=Buffer(bytes=10**6))
    match = Match(protocol=6)
    lane = Lane("a", slow, slow, flows=(Flow("one", match, slow, fast), Flow("two", match, slow, fast)))
    three_slow, line = 3 * 45_000_000, 450_000_000
    queue = 10**6 + 2**22
    assert lane_memory_bytes(lane) == (three_slow + 3 * queue + 2**26, line + queue + 2**26)
    wide = Lane("a", fast, fast, flows=(Flow("one", match, Impairment(300 * MS), fast),))
    assert lane_memory_bytes(wide)[0] == line + 2**26


def test_a_flow_with_the_longest_delay_keeps_the_memory_of_all_that_long() -> None:
    quick, far = Impairment(10 * MS), Impairment(300 * MS, rate_bps=10**6, buffer=Buffer(ns=4000 * MS))
    lane = Lane("a", quick, quick, line_rate_bps=10**9, flows=(Flow("one", Match(protocol=17), far, quick),))
    # The queue of four seconds is the flow's own.
    assert lane_memory_bytes(lane)[0] == 45_000_000 + 500_000 + 2**22 + 2**26


def test_jitter_by_a_table_needs_room_as_far_as_the_table_goes() -> None:
    even = Impairment(100 * MS, jitter_ns=10 * MS, rate_bps=10**9, buffer=Buffer(bytes=10**6))
    far = replace(even, distribution=(-100, 0, 3 * 8192))
    assert lane_memory_bytes(Lane("a", even, far)) == (16_500_000 + 10**6 + 2**26, 19_500_000 + 10**6 + 2**26)


def test_the_engine_takes_the_longest_delay_of_a_topology() -> None:
    settings = (engine_client.ENGINE / "src/settings.rs").read_text()
    found = re.search(r"^pub const MAX_DELAY_NS: Ns = ([0-9_]+);$", settings, re.MULTILINE)
    assert found
    assert int(found[1]) == LONGEST_DELAY_NS


def test_what_the_engine_cannot_do_is_named() -> None:
    known = Netem(gemodel=(1, 2, 3, 4), seed=2**64 - 1, reorder_p32=3, gap=1, ecn=True, corrupt_p32=1)
    assert unknown(Egress(known, Shaper(1000, 2, 3, 22, atm=True))) == []
    assert unknown(Egress(replace(known, gemodel=None, four_state=(1, 2, 3, 4, 5)))) == []
    assert unknown(Egress(known, Shaper(1000, 2, 3), Codel(9, 9, 9))) == ["aqm"]
    flow = Band(filters(Match(protocol=6, port=443), outbound=True), Egress(known))
    assert unknown(Egress(known, bands=(flow,))) == []
    assert unknown(Egress(known, bands=(replace(flow, egress=Egress(replace(known, loss_corr=1))),))) == ["loss_corr"]
    assert unknown(Egress(replace(known, loss_corr=1, slot=(1, 0, 0, 0, 0, 0)))) == ["loss_corr", "slot"]
    assert decode_egress(encode_egress(Egress(known), 5)) == Egress(known)


def test_what_the_engine_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.plan.preconditions.unknown", lambda egress: ["slot"] if egress.netem.loss_p32 else [])
    refuse(TOPOLOGIES[1], machine().observe())
    with pytest.raises(RefusedError) as refused:
        refuse(TOPOLOGIES[2], machine().observe())
    assert str(refused.value).splitlines()[0] == (
        "lane japan, inbound: the wire engine does not support slot: use datapath: netem"
    )


@pytest.mark.parametrize(
    "setting",
    [
        "jitter: 1ms, distribution: normal",
        "rate: 1Gbit, overhead: 22B, cells: atm",
        "loss: 1% burst 5, duplicate: 1%, corrupt: 1%, reorder: 1%, jitter: 1ms",
        "loss: 4-state 1% 90% 1% 10% 1%",
        "flows: {web: {match: {port: 443}, rtt: 40ms, rate: 1Gbit}}",
        "duplicate: 1%, flows: {web: {match: {port: 443}, rtt: 40ms, duplicate: 2%}}",
    ],
)
def test_what_netem_can_do_for_a_lane_the_engine_is_told(setting: str) -> None:
    topology = loader.loads(f"{{name: a, hub: h, datapath: wire, lanes: {{b: {{rtt: 10ms, {setting}}}}}}}")
    kernel = machine()
    refuse(topology, kernel.observe())
    assert wanted(topology, kernel.observe()).wires == go(kernel, topology).wires
    wire = go(kernel, topology).wires["lh-b"]
    assert decode(json.loads(json.dumps(encode("lh-b", wire)))) == wire


def test_an_aqm_of_the_kernels_is_refused_with_the_reason() -> None:
    topology = loader.loads("{name: a, hub: h, datapath: wire, lanes: {b: {rtt: 10ms, rate: 1Gbit, aqm: codel}}}")
    with pytest.raises(RefusedError) as refused:
        refuse(topology, machine().observe())
    never = (
        "the wire engine runs none of the kernel's queues but drop-tail: "
        "what is measured with a copy of the kernel's code says nothing about the original"
    )
    assert str(refused.value).splitlines() == [
        f"lane b, {way}: {never}: use datapath: netem" for way in ("outbound", "inbound")
    ]


def test_duplicates_on_a_lane_with_flows_are_for_the_engine_alone() -> None:
    text = "{name: a, hub: h, lanes: {b: {rtt: 10ms, flows: {f: {match: {port: 1}, rtt: 1ms, duplicate: 1%}}}}}"
    topology = loader.loads(text)
    refuse(topology, machine(has_netem=False).observe())
    with pytest.raises(RefusedError) as refused:
        refuse(topology, machine().observe())
    assert str(refused.value) == (f"lane b: {DUPLICATES_WITH_FLOWS}: use datapath: wire")


def test_a_table_is_sent_whole_and_shown_by_its_name() -> None:
    text = "{name: a, hub: h, datapath: wire, lanes: {b: {rtt: 10ms, jitter: 1ms, distribution: pareto}}}"
    wire = wanted(loader.loads(text), machine().observe()).wires["lh-b"]
    assert encode("lh-b", wire)["inbound"]["settings"]["distribution"] == list(named("pareto"))
    shown = str(SetWire("lh-b", wire))
    assert "delay 5000000ns 1000000ns distribution pareto limit" in shown
    assert len(shown) < 2000
    # What the engine has back is the table itself: another one is seen.
    other = encode("lh-b", wire)
    other["inbound"]["settings"]["distribution"][7] += 1
    assert decode(other) != wire
    # Uniform is what the engine does without a table.
    uniform = wanted(loader.loads(text.replace("pareto", "uniform")), machine().observe()).wires["lh-b"]
    assert "distribution" not in encode("lh-b", uniform)["inbound"]["settings"]


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


def test_room_counts_against_the_machines_memory() -> None:
    kernel = machine()
    kernel.memory_bytes = 2**28
    with pytest.raises(RefusedError, match="lower rate, RTT or buffer"):
        refuse(Topology("t", "hub", LANES[:1], datapath="wire"), kernel.observe())


def test_status_shows_each_flow_and_what_the_kernel_refused() -> None:
    text = "{name: a, hub: h, datapath: wire, lanes: {b: {rtt: 9ms, flows: {f: {match: {port: 1}, rtt: 1ms}}}}}"
    topology, kernel = loader.loads(text), machine()
    state = go(kernel, topology)
    flow = {"sent": 3, "sent_bytes": 300, "limit": 0, "refused": 0, "buffer": 0, "lost": 0, "queued": 1}
    flow["lateness_ns"] = [[10, 3]]  # type: ignore[assignment]
    told = flow | {"sent": 7, "flows": [flow], "not_permitted": ["SCHED_FIFO: no"], "ring_bytes": 0}
    one = lane_status(topology.lanes[0], state, {"lhs-b": engine_client._counted(told)}).outbound
    assert (one.counters.packets, one.not_permitted) == (7, ("SCHED_FIFO: no",))
    assert one.flows[0].netem
    assert (one.flows[0].counters.packets, one.flows[0].netem.delay_ns) == (3, MS // 2)


def test_the_engine_tells_loss_and_our_own_drops_apart() -> None:
    state = go(machine(), TOPOLOGIES[2])
    counted = {"lhh-japan": QueueCounters(9, 99, drops=10, queued_packets=0, queued_bytes=0, shaper_drops=3, lost=5)}
    inbound = lane_status(LANES[0], state, counted).inbound.counters
    assert (inbound.drops_limit, inbound.drops_buffer, inbound.drops_loss) == (2, 3, 5)


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    appliance = Appliance(FakeKernel(has_netem=False), tmp_path)

    def run(*args: str) -> str:
        assert main.main(args, obj=appliance) == 0
        return capsys.readouterr().out

    return run


def test_status_says_which_datapath_runs(terminal: Callable[..., str]) -> None:
    terminal("up", "topologies/new-york.yaml")
    assert terminal("status").startswith("new-york: 3 lanes through the wire engine\n")
    answer = json.loads(terminal("status", "--json"))
    assert (answer["datapath"], answer["lanes"][2]["outbound"]["netem"]["delay_ns"]) == ("wire", 173 * MS)
    assert terminal("set", "california", "--rtt", "40ms") == "california is at 40 ms: 1 step\n"
    said = terminal("plan", "topologies/new-york.yaml")
    assert said.startswith("longhaul-wire set lh-california outbound delay 16000000ns limit ")
    assert "order keep tbf rate 10000000000bit burst 131120 limit " in said
    assert not set("{}[]<>'\"") & set(said), "words, as tc has them"


def test_a_topology_says_its_datapath() -> None:
    text = "name: a\nhub: h\ndatapath: wire\non_failure: pass\nlanes: {b: {rtt: 2ms}}\n"
    topology = loader.loads(text)
    assert (topology.datapath, topology.on_failure) == ("wire", "pass")
    assert loader.loads(loader.dumps(topology)) == topology
    with pytest.raises(InputError) as wrong:
        loader.loads(text.replace("wire", "wifi"), "x.yaml")
    assert str(wrong.value) == "x.yaml:3: datapath: 'wifi' is not one of auto, netem, wire"
    with pytest.raises(ValueError, match="not one of"):
        Topology("a", "h", on_failure="explode")
