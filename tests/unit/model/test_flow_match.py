"""Flows: what a file may say of them, the filters that find their packets, and their queues in the kernel in memory."""

from __future__ import annotations

import json
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.cli import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.errors import InputError
from emulator.kernel import codec_flower
from emulator.kernel.fake import FakeKernel
from emulator.model.flow_match import IPV4, IPV6, Filter, Match, filters, parse_dscp, parse_protocol
from emulator.model.topology import Topology
from emulator.plan.desired_state import wanted
from emulator.plan.netem_lowering import lower
from emulator.system.struct_json import from_plain, to_plain

MS = 10**6
VOICE = "voice: {match: {dscp: ef, vlan: 7}, rtt: 100ms, loss: 1%}"
BULK = "bulk: {match: {hub: 10.77.0.1, port: 5201}, inbound: {rate: 1Mbit, seed: 5}}"


def star(*flows: str, rest: str = "rtt: 20ms, loss: 2%, seed_of: none") -> Topology:
    """One lane with these flows."""
    lane = rest.replace(", seed_of: none", "")
    return loader.loads(f"{{name: x, hub: h, lanes: {{a: {{{lane}, flows: {{{', '.join(flows)}}}}}}}}}")


def test_a_flow_has_the_lanes_delay_and_nothing_else_of_it() -> None:
    voice, bulk = star(VOICE, BULK).lane("a").flows
    assert (voice.outbound.delay_ns, bulk.outbound.delay_ns) == (50 * MS, 10 * MS)
    assert (bulk.outbound.mean_loss, bulk.inbound.rate_bps, bulk.outbound.rate_bps) == (0, 10**6, None)
    assert voice.match == Match(dscp=46, vlan=7)
    one_way = star("b: {match: {port: 1}, outbound: {delay: 3ms}}").lane("a").flows[0]
    assert (one_way.outbound.delay_ns, one_way.inbound.delay_ns) == (3 * MS, 10 * MS)


@pytest.mark.parametrize("flows", [(VOICE,), (VOICE, BULK)])
def test_a_file_and_the_desire_come_back_as_they_were(flows: tuple[str, ...]) -> None:
    one = star(*flows)
    assert loader.loads(loader.dumps(one)) == one
    assert from_plain(Topology, json.loads(json.dumps(to_plain(one)))) == one


@pytest.mark.parametrize(
    ("match", "found"),
    [
        ("{site: 10.77.0.2}", [Filter(IPV4, target=ip_network("10.77.0.2"))]),
        ("{vlan: 7}", [Filter(vlan=7)]),
        ("{dscp: af41}", [Filter(IPV4, dscp=34), Filter(IPV6, dscp=34)]),
        ("{protocol: icmp}", [Filter(IPV4, protocol=1)]),
        (
            "{hub: 'fd00::/64', hub_port: 80, protocol: tcp}",
            [Filter(IPV6, source=ip_network("fd00::/64"), protocol=6, source_port=80)],
        ),
        (
            "{hub: 10.0.0.0/8, site_port: 53}",
            [Filter(IPV4, source=ip_network("10.0.0.0/8"), protocol=p, target_port=53) for p in (6, 17)],
        ),
    ],
)
def test_filters_are_told_by_the_direction(match: str, found: list[Filter]) -> None:
    said = star(f"f: {{match: {match}}}").lane("a").flows[0].match
    assert list(filters(said, outbound=True)) == found
    turned = [
        replace(f, source=f.target, target=f.source, source_port=f.target_port, target_port=f.source_port)
        for f in found
    ]
    assert list(filters(said, outbound=False)) == turned


def test_a_port_of_either_end_is_looked_for_at_both() -> None:
    found = filters(Match(port=9, protocol=17), outbound=True)
    assert [(f.ethertype, f.source_port, f.target_port) for f in found] == [
        (IPV4, 9, None), (IPV4, None, 9), (IPV6, 9, None), (IPV6, None, 9),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flow", "reported"),
    [
        ("f: {match: {}}", "flow f: the match is empty and would match every packet"),
        ("f: {match: {protocol: icmp, port: 1}}", "flow f: only tcp and udp have ports"),
        ("f: {match: {port: 1, hub_port: 2}}", "flow f: port means either end: remove it, or hub_port and site_port"),
        ("f: {match: {port: 0}}", "flow f: a port is not within 1..65535"),
        ("f: {match: {hub: '::1', site: 10.0.0.1}}", "flow f: hub and site have different IP versions"),
        (
            "f: {match: {hub: 'fd00::/8', protocol: icmp}}",
            "flow f: the protocol and the addresses have different IP",
        ),
        ("f: {match: {dscp: 64}}", "flow f: dscp 64 is not within 0..63"),
        (
            "f: {match: {port: 1}, buffer: 1MiB}",
            "flow f: a buffer needs a rate: without a bottleneck",
        ),
        ("f: {match: {site: 10.0.0.300}}", "use an address or a network such as 10.77.0.0/24"),
        ("f: {match: {protocol: quic}}", "'quic' is not a protocol: use icmp, tcp, udp, icmp6 or a number"),
        ("f: {match: {dscp: gold}}", "'gold' is not a code point: use a name such as ef or af41, or a number"),
        ("f: {match: {prot: tcp}}", "unknown key; did you mean 'port'?"),
        ("f: {rtt: 1ms}", "is missing"),
        ("F: {match: {port: 1}}", "flow name 'F' is not of a-z, 0-9 and inner -"),
        (
            ", ".join(f"f{n}: {{match: {{port: {n + 1}}}}}" for n in range(9)),
            "a lane has at most 8 flows, each",
        ),
    ],
)
def test_flows_that_make_no_sense(flow: str, reported: str) -> None:
    with pytest.raises(InputError) as wrong:
        star(flow, rest="rtt: 8ms")
    assert len(wrong.value.mistakes) == 1
    assert reported in wrong.value.mistakes[0].text


def test_words_for_numbers() -> None:
    assert (parse_protocol("udp"), parse_protocol("132"), parse_dscp("cs6"), parse_dscp("9")) == (17, 132, 48, 9)


networks = st.sampled_from([None, ip_network("10.0.0.0/8"), ip_network("192.0.2.1")])
ports = st.none() | st.integers(1, 65535)


@given(
    st.sampled_from([IPV4, IPV6]), st.none() | st.integers(0, 4094), networks, networks, ports, ports,
    st.none() | st.integers(0, 63), st.sampled_from([6, 17]),
)  # fmt: skip
def test_a_filter_comes_back_from_the_kernels_form(
    ethertype: int, vlan: int | None, one: object, other: object, port: int | None, back: int | None,
    dscp: int | None, protocol: int,
) -> None:  # fmt: skip
    sixes = ethertype == IPV6
    source, target = (None if sixes else one), (ip_network("fd00::/64") if sixes else other)
    asked = Filter(ethertype, vlan, source, target, protocol, port, back, dscp)  # type: ignore[arg-type]
    assert codec_flower.decode_filter(codec_flower.encode_filter(asked, 0x10002)) == (0x10002, asked)


def test_a_filter_of_somebody_elses_is_read_though_its_address_has_bits_below_the_mask() -> None:
    """The kernel dumps the address as it was given; only Longhaul gives it without those bits."""
    keys = {
        "KEY_ETH_TYPE": b"\x08\x00",
        "KEY_IPV4_DST": bytes([10, 0, 0, 5]),
        "KEY_IPV4_DST_MASK": bytes([255, 0, 0, 0]),
    }
    options = {"attrs": [["TCA_FLOWER_CLASSID", 0x10002], *([f"TCA_FLOWER_{name}", key] for name, key in keys.items())]}
    assert codec_flower.decode_filter(options) == (0x10002, Filter(IPV4, target=ip_network("10.0.0.0/8")))


def up(topology: Topology, folder: Path) -> tuple[FakeKernel, Appliance]:
    kernel = FakeKernel()
    appliance = Appliance(kernel, folder)
    appliance.up(topology)
    return kernel, appliance


def test_each_flow_has_a_seed_and_a_limit_of_its_own(tmp_path: Path) -> None:
    one = star(VOICE, BULK)
    kernel, _ = up(one, tmp_path)
    for port, egress in zip(("lhs-a", "lhh-a"), lower(one.lane("a"), seed=1, has_seed=True).both, strict=True):
        assert kernel.ports[port].egress == egress
    out, back = lower(one.lane("a"), seed=1, has_seed=True).both
    assert len({part.netem.seed for egress in (out, back) for _, part in egress.places}) == 6
    assert back.bands[1].egress.netem.seed == 5
    assert out.bands[0].egress.netem.limit > out.netem.limit
    assert back.bands[1].egress.shaper is not None and out.bands[1].egress.shaper is None


def test_a_flow_without_a_gap_other_flows_with_a_word(tmp_path: Path) -> None:
    _, appliance = up(star(VOICE, BULK), tmp_path)
    changed = star(VOICE.replace("1%", "3%"), BULK)
    assert [step.why.split(":")[0] for step in appliance.plan(changed)] == ["lhh-a flow 1"]
    other = [step.why for step in appliance.plan(star(VOICE))]
    assert "lhs-a changes to other flows: packets in flight are lost, and none passes unimpaired" in other
    appliance.up(star(VOICE))
    appliance.up(star())
    assert appliance.status().as_asked


def test_off_takes_the_flows_impairments_too(tmp_path: Path) -> None:
    one = star(VOICE, BULK)
    _, appliance = up(one, tmp_path)
    appliance.set_lane(replace(one.lane("a"), off=True))
    lane = appliance.status().lanes[0]
    assert [part.netem.delay_ns for part in lane.inbound.flows if part.netem] == [0, 0]
    assert [part.shaper is not None for part in lane.inbound.flows] == [False, True]


def test_the_engine_has_the_same_flows(tmp_path: Path) -> None:
    kernel, topology = FakeKernel(has_netem=False), star(VOICE, rest="rtt: 20ms")
    Appliance(kernel, tmp_path).up(topology)
    netem = wanted(topology, FakeKernel().observe()).egress("lhs-a")
    engine = kernel.observe().egress("lhs-a")
    assert netem and engine
    assert (engine.form, engine.bands[0].egress.netem.delay_ns) == (netem.form, netem.bands[0].egress.netem.delay_ns)


def test_status_tells_each_flow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel, appliance = up(star(VOICE, BULK), tmp_path)
    rows = [line.split() for line in appliance_says(appliance, capsys, "status").splitlines()]
    assert ["voice", "100ms", "outbound", "50ms", "1%"] in [row[:5] for row in rows]
    flows = json.loads(appliance_says(appliance, capsys, "status", "--json"))["lanes"][0]["flows"]
    assert flows["voice"]["outbound"]["netem"]["delay_ns"] == 50 * MS
    assert flows["bulk"]["inbound"]["tbf"]["rate_bytes_per_s"] * 8 == 10**6
    assert kernel.observe() == wanted(star(VOICE, BULK), kernel.observe())


def appliance_says(appliance: Appliance, capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert main.main(list(command), obj=appliance) == 0
    return capsys.readouterr().out
