"""Topology files: exact meaning, a round trip for any topology, and golden texts for every mistake."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.folders import ROOT
from support.golden import golden

from emulator.config import loader
from emulator.errors import InputError
from emulator.model.impairment import AQMS, Buffer, Impairment
from emulator.model.jitter_distribution import NAMES
from emulator.model.loss_model import P32, FourState, GilbertElliott
from emulator.model.topology import Lane, Ports, Topology

GOLDEN = sorted((ROOT / "tests/golden/errors").glob("*.yaml"))
MS = 10**6


def lane(text: str, defaults: str = "{}") -> Lane:
    """The one lane of a file, from what stands behind its name."""
    return loader.loads(f"{{name: x, hub: here, defaults: {defaults}, lanes: {{there: {text}}}}}").lane("there")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_errors(path: Path) -> None:
    with pytest.raises(InputError) as wrong:
        loader.loads(path.read_text(), "topologies/x.yaml", path.parent)
    said = str(wrong.value) + "\n"
    assert said == golden(path.with_suffix(".txt"), said)


def test_text_that_is_no_file_may_name_no_files(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("-1 0 1")
    (tmp_path / "trace.csv").write_text("time,delay\n0s,1ms\n")
    lane = f"{{rtt: 10ms, jitter: 1ms, distribution: {tmp_path}/table}}"
    schedule = f"{{tracks: [{{lane: far, trace: {tmp_path}/trace.csv}}]}}"
    for text in (
        f"{{name: t, hub: h, lanes: {{far: {lane}}}}}",
        f"{{name: t, hub: h, lanes: {{far: {{}}}}, schedule: {schedule}}}",
    ):
        with pytest.raises(InputError, match=r"nor a file with a table|a request cannot name a trace file"):
            loader.loads(text)


def test_five_mistakes_are_five() -> None:
    with pytest.raises(InputError) as wrong:
        loader.load(ROOT / "tests/golden/errors/five-at-once.yaml")
    assert [m.path for m in wrong.value.mistakes] == [
        "hubb", "lanes.california.rtt", "lanes.japan.loss", "lanes.london", "lanes.london",
    ]  # fmt: skip


def test_the_founding_star() -> None:
    star = loader.load(ROOT / "topologies/new-york.yaml")
    assert (star.name, star.hub, star.sites) == ("new-york", "new-york", ("california", "london", "japan"))
    assert [one.rtt_ns for one in star.lanes] == [32 * MS, 80 * MS, 346 * MS]
    assert {d.rate_bps for one in star.lanes for d in (one.outbound, one.inbound)} == {10**10}
    assert star.rtt_ns("california", "japan") == 378 * MS


def test_the_other_topologies() -> None:
    far = loader.load(ROOT / "topologies/single-lane.yaml").lane("far")
    assert far.outbound == far.inbound == Impairment(delay_ns=35_500_000, rate_bps=10**9)
    wide = loader.load(ROOT / "topologies/wide-star.yaml")
    assert len(wide.lanes) == 12
    tokyo = wide.lane("tokyo")
    assert (tokyo.outbound.delay_ns, tokyo.inbound.delay_ns) == (115 * MS, 111 * MS)


def test_an_odd_nanosecond_is_not_lost() -> None:
    one = lane("{rtt: 75ns}")
    assert (one.outbound.delay_ns, one.inbound.delay_ns) == (38, 37)


def test_lane_settings_hold_per_direction_and_are_never_halved() -> None:
    one = lane("{rtt: 75ms, loss: 1%, jitter: 1ms, rate: 1Gbit, buffer: 8MiB}")
    assert one.outbound == Impairment(37_500_000, MS, 42_949_673, 10**9, Buffer(bytes=8 * 2**20))
    assert one.inbound == one.outbound


def test_direction_over_lane_over_defaults() -> None:
    one = lane(
        "{rtt: 20ms, loss: 2%, outbound: {loss: 0, buffer: auto}, inbound: {rate: none, buffer: auto}}",
        "{rate: 1Gbit, loss: 1%, buffer: 10p, mtu: 9000, line_rate: 25Gbit}",
    )
    assert one.outbound == Impairment(10 * MS, rate_bps=10**9)
    assert one.inbound == Impairment(10 * MS, loss_p32=85_899_346)
    assert (one.mtu, one.line_rate_bps) == (9000, 25 * 10**9)


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("{rtt: 346ms, outbound: {delay: 180ms}}", (180, 166)),
        ("{rtt: 346ms, inbound: {delay: 346ms}}", (0, 346)),
        ("{rtt: 346ms, outbound: {delay: 100ms}, inbound: {delay: 246ms}}", (100, 246)),
        ("{inbound: {delay: 5ms}}", (0, 5)),
        ("{rate: 1Gbit}", (0, 0)),
    ],
)
def test_delays(text: str, delays: tuple[int, int]) -> None:
    one = lane(text)
    assert (one.outbound.delay_ns, one.inbound.delay_ns) == (delays[0] * MS, delays[1] * MS)


def test_every_impairment_of_a_direction() -> None:
    one = lane(
        "{rtt: 80ms, jitter: 5ms, distribution: normal, loss: 1% burst 5, duplicate: 0.1%, corrupt: ber 1e-9,"
        " reorder: 0.5%, ecn: yes, rate: 10Mbit, buffer: 100p, queue: codel, overhead: 22B, cells: atm,"
        " outbound: {order: free, seed: 7, loss: 4-state 1% 20% 5% 50% 0.1%, distribution: [-8192, 0, 8192]}}"
    )
    assert one.inbound == Impairment(
        40 * MS, 5 * MS, 0, 10**7, Buffer(packets=100), "normal", True,
        GilbertElliott(8_676_702, 858_993_459), 4_294_967, 0, 10**6, 21_474_836, True, 22, True, "codel", None,
    )  # fmt: skip
    assert (one.outbound.keep_order, one.outbound.seed, one.outbound.distribution) == (False, 7, (-8192, 0, 8192))
    assert isinstance(one.outbound.loss_model, FourState)


def test_a_lane_takes_back_what_the_defaults_impair() -> None:
    one = lane(
        "{rtt: 8ms, loss: 0, ecn: no, cells: none, queue: drop-tail, corrupt: 0, order: keep, distribution: uniform}",
        "{loss: 1% burst 2, ecn: yes, rate: 1Gbit, cells: atm, queue: red, corrupt: ber 1e-9, order: free,"
        " distribution: pareto}",
    )
    assert one.outbound == Impairment(4 * MS, rate_bps=10**9)


def test_a_table_stands_beside_the_topology(tmp_path: Path) -> None:
    (tmp_path / "mine.dist").write_text("# my path\n -8192 0\n 16384\n")
    (tmp_path / "x.yaml").write_text("{name: x, hub: h, lanes: {a: {rtt: 8ms, jitter: 1ms, distribution: mine.dist}}}")
    assert loader.load(tmp_path / "x.yaml").lane("a").inbound.distribution == (-8192, 0, 16384)


def test_words_that_yaml_takes_for_something_else_are_words() -> None:
    star = loader.loads("{name: on, hub: no, lanes: {null: {rtt: 1ms}, 010: {rtt: 2ms}, true: {rtt: 3ms}}}")
    assert (star.name, star.hub, star.sites) == ("on", "no", ("null", "010", "true"))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/absent\.yaml: cannot be read: No such file or directory$"):
        loader.load(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"/binary\.yaml: is not a text file in UTF-8$"):
        loader.load(tmp_path / "binary.yaml")


@pytest.mark.parametrize("text", ["[" * 5000, "name: \x07", "{" * 5000])
def test_hostile_text_is_one_clear_mistake(text: str) -> None:
    with pytest.raises(InputError) as wrong:
        loader.loads(text)
    assert len(wrong.value.mistakes) == 1


@given(st.text(alphabet="{}[]:, \nabms0123rt&*<->!%'\"", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        loader.loads(text)
    except InputError as wrong:
        assert wrong.mistakes


def test_the_schema_knows_every_key() -> None:
    schema = loader.json_schema()
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == [
        "name", "hub", "hub_host", "subnet", "seed", "on_drift", "datapath", "on_failure", "defaults", "lanes",
        "schedule", "sweep",
    ]  # fmt: skip
    assert list(schema["$defs"]["LaneForm"]["properties"]) == [
        "jitter", "distribution", "order", "loss", "duplicate", "corrupt", "reorder", "ecn", "rate", "buffer", "aqm",
        "overhead", "cells", "mtu", "line_rate", "rtt", "outbound", "inbound", "ports", "disabled", "host", "address",
        "flows", "path_profile",
    ]  # fmt: skip
    assert schema["required"] == ["name", "hub"]
    assert all(one.get("description") for one in schema["$defs"]["LaneForm"]["properties"].values())


names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
buffers = st.builds(Buffer, bytes=st.integers(1, 2**32 - 1)) | st.builds(Buffer, packets=st.integers(1, 2**16))
buffers |= st.builds(Buffer, ns=st.integers(1, 2**25))


p32 = st.integers(0, P32)
models = st.builds(GilbertElliott, st.integers(1, P32), st.integers(1, P32), p32, p32) | st.builds(
    FourState, st.integers(0, P32 // 2), st.integers(1, P32 // 2), st.integers(1, P32 // 2), st.integers(1, P32),
    st.integers(0, P32 // 2),
)  # fmt: skip
tables = st.lists(st.integers(-32768, 32767), min_size=1, max_size=9).map(tuple)


@st.composite
def impairments(draw: st.DrawFn) -> Impairment:
    """Any impairment that is free of contradictions."""
    delay = draw(st.integers(0, 10**12))
    rate = draw(st.none() | st.integers(10**4, 10**12))
    model = draw(st.none() | models)
    corrupt = draw(p32)
    return Impairment(
        delay_ns=delay,
        jitter_ns=draw(st.integers(0, min(delay, 2**31 - 1))),
        loss_p32=0 if model else draw(p32),
        rate_bps=rate,
        buffer=draw(st.none() | buffers) if rate else None,
        distribution=draw(st.sampled_from(NAMES) | tables),
        keep_order=draw(st.booleans()),
        loss_model=model,
        duplicate_p32=draw(p32),
        corrupt_p32=corrupt,
        ber_e15=0 if corrupt else draw(st.integers(0, 10**15)),
        reorder_p32=draw(p32) if delay else 0,
        ecn=model is not None and model.mean_loss > 0 and draw(st.booleans()),
        overhead_bytes=draw(st.integers(0, 65535)) if rate else 0,
        atm=bool(rate) and draw(st.booleans()),
        aqm=draw(st.sampled_from(AQMS)) if rate else "drop-tail",
        seed=draw(st.none() | st.integers(0, 2**64 - 1)),
    )


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any topology of up to five lanes, some of them on ports."""
    hub, *sites = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    lanes = [
        Lane(
            site,
            outbound=draw(impairments()),
            inbound=draw(impairments()),
            ports=draw(st.none() | st.just(Ports(f"hub{index}", f"site{index}"))),
            mtu=draw(st.integers(576, 65521)),
            line_rate_bps=draw(st.integers(8, 10**12)),
        )
        for index, site in enumerate(sites)
    ]
    network = IPv4Network((draw(st.integers(0, 2**24 - 1)) << 8, 24))
    return Topology(draw(st.text()), hub, tuple(lanes), network, draw(st.integers(0, 2**64)))


@given(topologies())
def test_round_trip(topology: Topology) -> None:
    assert loader.loads(loader.dumps(topology)) == topology


@given(topologies(), st.integers(0, 10**12))
def test_round_trip_of_lanes_with_one_rtt(topology: Topology, rtt_ns: int) -> None:
    lanes = tuple(Lane(one.name).with_rtt(rtt_ns) for one in topology.lanes)
    plain = Topology("x", topology.hub, lanes)
    assert loader.loads(loader.dumps(plain)) == plain
