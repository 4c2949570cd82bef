"""From axes to cells: every combination, its path, its name, its duration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from support.folders import TOPOLOGIES

from emulator.analysis import tcp_path
from emulator.config import loader
from emulator.errors import InputError
from emulator.experiment import grid
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.grid import Axes
from emulator.hosts import tcp_profiles
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.model.buffer_depth import BufferDepth
from emulator.model.impairment import Impairment
from emulator.model.loss_model import P32
from emulator.model.request_load import RequestLoad
from emulator.model.topology import Lane, Topology

MS, MIB = 10**6, 2**20
ONE = Topology("one", "hub", (Lane("lane"),))
STAR = Topology(
    "star", "hub", (Lane("near").with_rtt(2 * MS), Lane("far", Impairment(rate_bps=10**9)).with_rtt(71 * MS))
)


def cells(base: Topology = ONE, **axes: Any) -> list[CellSpec]:
    return grid.cells(base, Axes(**axes), tcp_profiles.load_profiles(None))


def test_every_combination_once_and_in_order() -> None:
    ids = [spec.id for spec in cells(rtt=(0, 32 * MS), streams=(1, 8))]
    assert ids == [
        f"lane-{rtt}-{profile}-{streams}"
        for rtt in ("0ms", "32ms")
        for profile in ("default", "max")
        for streams in (1, 8)
    ]


def test_all_axes_are_in_the_name_and_in_the_path() -> None:
    (spec,) = cells(
        rtt=(80 * MS,), tcp_profile=("max",), streams=(4,), cc=("bbr",), initcwnd=(20,), direction=("inbound",),
        mtu=(9000,), rate=(10**8,), loss=(round(0.001 * P32),), duration=5,
    )  # fmt: skip
    assert spec.id == "lane-80ms-max-4-bbr-initcwnd20-inbound-MTU9000-100Mbit-loss0.1%"
    assert (spec.path.rate_bps, spec.path.mtu, spec.path.streams) == (10**8, 9000, 4)
    assert (spec.path.congestion_control, spec.profile.initcwnd, spec.duration_s) == ("bbr", 20, 5)
    assert spec.path.loss == pytest.approx(0.001)
    assert spec.column == "max, 4 streams, bbr, initcwnd 20, inbound, MTU 9000, 100 Mbit/s, loss 0.1%"


def test_a_direction_has_its_own_path() -> None:
    base = Topology(
        "odd", "hub", (Lane("lane", Impairment(rate_bps=10**9), Impairment(rate_bps=10**8, loss_p32=P32 // 100)),)
    )
    out, back = (spec.path for spec in cells(base, tcp_profile=("max",), direction=("outbound", "inbound")))
    assert (out.rate_bps, out.loss) == (10**9, 0)
    assert (back.rate_bps, back.loss) == (10**8, pytest.approx(0.01))


def test_max_suits_the_direction_of_the_data() -> None:
    slow, fast = Impairment(rate_bps=10**7), Impairment(rate_bps=10**9)
    base = Topology("odd", "hub", (Lane("lane", slow, fast).with_rtt(100 * MS),))
    asked = Axes(tcp_profile=("max",), direction=("outbound", "inbound", "both"), initcwnd=(20,))
    of_slow, of_fast = (replace(tcp_profiles.maximum(rate_bps, 100 * MS), initcwnd=20) for rate_bps in (10**7, 10**9))
    assert [spec.profile for spec in grid.cells(base, asked, {})] == [of_slow, of_fast, of_fast]
    one_way = replace(asked, direction=("outbound", "inbound"))
    found = grid.cells(base, one_way, {}, loads=(RequestsWorkload(RequestLoad()),))
    assert [spec.profile for spec in found] == [of_fast, of_fast], "answers go against the cell's direction"


def test_the_lanes_of_a_topology_keep_what_is_not_varied() -> None:
    near, far = cells(STAR, tcp_profile=("default",))
    assert (near.path.rate_bps, far.path.rate_bps) == (10**10, 10**9)
    assert near.lane.inbound.rate_bps == 10**10
    assert [spec.lane.name for spec in cells(STAR, lane=("far",), tcp_profile=("max",))] == ["far"]


def test_windows_are_profiles() -> None:
    (spec,) = cells(rtt=(71 * MS,), window=(MIB,))
    assert spec.profile.name == "window-1MiB"
    assert spec.profile.tcp_rmem is not None
    assert (spec.profile.window, spec.profile.tcp_rmem[2]) == (MIB, 3 * MIB)
    assert spec.prediction.limit == "receive window"
    assert spec.prediction.bytes_per_s == pytest.approx(tcp_path.window_bytes_per_s(MIB, 71 * MS))
    (odd,) = cells(rtt=(71 * MS,), window=(300 * 1024,))
    assert odd.profile.tcp_rmem is not None
    assert odd.profile.tcp_rmem[2] * grid.WINDOW_SHARE == pytest.approx(300 * 1024, rel=1e-6)
    assert CellSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("rtt_ms", "profile", "lasts_s"), [(0, "default", 10), (32, "default", 10), (346, "default", 40), (346, "max", 40)]
)
def test_durations_come_from_the_rtt(rtt_ms: int, profile: str, lasts_s: int) -> None:
    (spec,) = cells(rtt=(rtt_ms * MS,), tcp_profile=(profile,))
    assert spec.duration_s == lasts_s


@pytest.mark.parametrize(
    ("base", "axes", "said"),
    [
        (ONE, {"lane": ("moon",)}, "--lane: there is no lane 'moon': use lane"),
        (
            ONE,
            {"tcp_profile": ("fast",)},
            "--tcp-profile: there is no TCP profile 'fast': use default, founding or max",
        ),
        (ONE, {"rtt": (1, 1)}, "sweep: named twice: lane-1ns-default-1, lane-1ns-max-1"),
        (STAR, {"rtt": (1,)}, "--rtt: RTTs need a single lane: add --lane NAME"),
        (
            Topology("one", "hub", (Lane("lane", Impairment(jitter_ns=MS, delay_ns=MS)),)),
            {"rtt": (MS,), "tcp_profile": ("fast",)},
            "--tcp-profile: there is no TCP profile 'fast': use default, founding or max\n"
            "--rtt: lane lane: jitter 1 ms exceeds the one-way delay of 500 us",
        ),
    ],
)
def test_mistakes(base: Topology, axes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as wrong:
        cells(base, **axes)
    assert str(wrong.value) == said


def test_a_grid_without_an_end_is_refused_before_any_cell_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "_lanes", lambda *_: pytest.fail("a lane was made"))
    with pytest.raises(InputError, match="sweep: 131072 cells are too many: 10000 at most"):
        cells(STAR, tcp_profile=("max",) * 32, streams=tuple(range(1, 33)), initcwnd=tuple(range(1, 65)))


def test_a_cell_of_one_lane_has_its_address_and_no_schedule_of_other_lanes() -> None:
    day = loader.load(TOPOLOGIES / "day.yaml")
    for spec in cells(grid.in_namespaces(day), lane=("tokyo", "ship")):
        assert spec.topology.ends(spec.lane.name) == day.ends(spec.lane.name)
        assert spec.topology.schedule is None
        assert CellSpec.from_json(spec.to_json()) == spec


def test_cells_of_a_lane_that_is_off_ask_for_what_is_in_effect_and_for_the_axes() -> None:
    lane = Lane("lane", Impairment(4 * MS, loss_p32=9, rate_bps=10**9), Impairment(4 * MS, rate_bps=10**9), off=True)
    base = Topology("one", "hub", (lane,))
    plain, far = (
        grid.cells(base, Axes(tcp_profile=("default",), rtt=rtts), tcp_profiles.load_profiles())[0].lane
        for rtts in ((), (20 * MS,))
    )
    assert (plain.off, plain.rtt_ns, plain.outbound) == (False, 0, Impairment(rate_bps=10**9))
    assert (far.off, far.rtt_ns, far.outbound) == (False, 20 * MS, Impairment(10 * MS, rate_bps=10**9))


def test_buffers_and_what_they_do_are_axes_with_names_of_their_own() -> None:
    """A share of the BDP follows rate and RTT, whatever order the user names them in."""
    lane = Lane("far", Impairment(rate_bps=10**8), Impairment(rate_bps=10**8))
    depths = tuple(map(BufferDepth.parse, ("0.25bdp", "4bdp", "100p")))
    axes = Axes(rtt=(20 * MS, 100 * MS), tcp_profile=("default",), rate=(10**9,), buffer=depths, aqm=("codel",))
    specs = grid.cells(Topology("star", "hub", (lane,)), axes, tcp_profiles.load_profiles())
    assert [spec.path.buffer_bytes for spec in specs] == [625_000, 10_000_000, 151_400, 3_125_000, 50_000_000, 151_400]
    assert specs[0].id == "far-20ms-default-1-1Gbit-buffer0.25bdp-codel"
    assert specs[0].column.endswith("1 Gbit/s, buffer 0.25 bdp, codel")
    assert {spec.lane.inbound.aqm for spec in specs} == {"codel"}
    for spec in specs:
        assert CellSpec.from_json(spec.to_json()) == spec
    (plain,) = grid.cells(
        Topology("star", "hub", (lane,)), Axes(tcp_profile=("default",)), tcp_profiles.load_profiles()
    )
    assert (plain.varied, "varied" in plain.to_json()) == ((), False)


def test_a_buffer_needs_no_rate_of_the_lane() -> None:
    base = Topology("star", "hub", (Lane("far").with_rtt(8 * MS),))
    (spec,) = grid.cells(
        base, Axes(tcp_profile=("default",), buffer=(BufferDepth.parse("1bdp"),)), {"default": tcp_profiles.DEFAULT}
    )
    assert (spec.path.rate_bps, spec.path.buffer_bytes) == (10**10, 10**7)
