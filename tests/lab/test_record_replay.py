"""Record a lane, replay it on another, record that: the same path profile comes back. Exact in virtual time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.cli import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools import ping
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.loss_model import P32, GilbertElliott
from emulator.model.topology import Topology
from emulator.record import compare_profiles, file, recording
from emulator.record.path_profile import PathProfile
from web.recordings import RecordingRequest, Recordings
from web.service import UseCases

MS, S = 10**6, 10**9
SLACK_NS = 10_000
PATHS = """
name: paths
hub: hub
seed: 3
lanes:
  real:
    rtt: 100ms
    outbound: {jitter: 3ms, distribution: normal, loss: 6% burst 3}
    inbound: {delay: 40ms, jitter: 2ms, distribution: pareto, loss: 2%}
  copy: {rtt: 20ms}
  steps: {rtt: 20ms}
  # With room for what TCP needs to fill it: a queue of one BDP is three packets here.
  thin: {rtt: 10ms, outbound: {rate: 5Mbit, buffer: 50ms}, inbound: {rate: 3Mbit, buffer: 50ms}}
"""


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    kernel = NetlinkKernel()
    one = Appliance(kernel, tmp_path_factory.mktemp("state"))
    one.up(loader.loads(PATHS))
    yield one
    one.down()
    kernel.close()


def recorded(
    appliance: Appliance, lane: str, folder: Path, by: str = "auto", seconds: int = 40, *, rate: bool = False
) -> PathProfile:
    """What 50 probes a second tell of a lane."""
    topology = appliance.topology()
    assert topology
    with recording.over_lane(topology, lane, by) as ends:
        plan = recording.RecordingPlan(by, 20 * MS, seconds * S)
        recording.record(ends, lane, "now", folder, plan, lambda _: None)
        if rate:
            recording.measure_rates(ends, folder)
    return recording.finish(folder, S)


@pytest.fixture(scope="module")
def real(appliance: Appliance, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recording of the first lane."""
    path = tmp_path_factory.mktemp("recordings") / "real"
    recorded(appliance, "real", path)
    return path


def test_a_lane_is_recorded_as_it_was_asked_for(real: Path) -> None:
    profile = file.load(real)
    out, back = profile.outbound, profile.inbound
    assert (profile.source.tool, profile.source.ways) == ("irtt", "measured")
    assert out.found.median_ns.holds(60 * MS)
    assert out.found.lost.holds(0.06)
    assert out.found.burst and out.found.burst.holds(3)
    assert isinstance(out.loss, GilbertElliott)
    assert out.found.goodness and out.found.goodness.p_value > 0.001
    # Pareto's least is 2/3 of the jitter below the delay.
    assert back.found.least_ns == pytest.approx(40 * MS - 2 * MS * 2 / 3, abs=SLACK_NS)
    assert isinstance(back.loss, int)
    assert back.found.lost.holds(0.02)
    assert back.found.goodness and back.found.goodness.p_value > 0.001


def test_the_replay_of_a_recording_is_recorded_as_the_same_path(
    appliance: Appliance, real: Path, tmp_path: Path
) -> None:
    before = appliance.topology()
    assert before
    assert main.main(["replay", str(real), "copy"], obj=appliance) == 0
    again = recorded(appliance, "copy", tmp_path / "copy")
    rows = compare_profiles.compared(file.load(real), again, SLACK_NS)
    assert [row.what for row in rows] == 2 * ["median delay", "shape (KS)", "loss", "loss in a row"]
    assert [row for row in rows if not row.alike] == []
    other = recorded(appliance, "steps", tmp_path / "other", "ping", 10)
    reported = {
        f"{row.direction} {row.what}" for row in compare_profiles.compared(again, other, SLACK_NS) if not row.alike
    }
    assert reported >= {"outbound median delay", "inbound median delay", "outbound shape (KS)", "inbound shape (KS)"}
    appliance.up(before)


TRACE = "time,delay_ms,loss\n0s,{0},0\n2s,{1},100%\n3s,{2},0\n6s,{0},0\n"


def test_a_trace_is_played_in_its_order(appliance: Appliance, real: Path, tmp_path: Path) -> None:
    """Eight seconds of steps of our own; a ping meanwhile sees each of them at its time."""
    path = tmp_path / "steps"
    path.mkdir()
    for name in ("profile.yaml", "outbound.dist", "inbound.dist"):
        (path / name).write_text((real / name).read_text())
    (path / "outbound.csv").write_text(TRACE.format(30, 30, 50))
    (path / "inbound.csv").write_text(TRACE.replace("100%", "0").format(10, 10, 15))
    topology = appliance.topology()
    assert topology
    seen = _pinged_while_played(appliance, topology, path)
    # What is on its way when a step comes has one way before it and one after: none of these.
    begin = next(at for at, ms in seen if ms == 40)
    steps = [(ms, at - begin) for at, ms in seen if ms in (20, 40, 65) and at >= begin]
    ends = {ms: [at for kind, at in steps if kind == ms] for ms in (20, 40, 65)}
    first_40 = [at for at in ends[40] if at < ends[65][0]]
    found = (first_40[-1], ends[65][0], ends[65][-1], ends[40][-1], ends[20][0])
    assert found == pytest.approx((2 * S, 3 * S, 6 * S, 9 * S, 9 * S), abs=S // 10)
    assert appliance.status().drift == []


def _pinged_while_played(appliance: Appliance, topology: Topology, path: Path) -> list[tuple[int, int]]:
    """When each answered echo was sent, and its round trip in ms."""
    argv = ping.stamped_argv(str(topology.address("steps").ip), 400, 0.02)
    with NamespaceHost("hub").start(argv) as program:
        assert main.main(["replay", str(path), "steps", "--trace"], obj=appliance) == 0
        said = program.wait(60).stdout
    replies = [reply for line in said.splitlines() if (reply := ping.parse_stamped(line))]
    return sorted((sent_ns, round(rtt_ns / MS)) for _, sent_ns, rtt_ns in replies)


def test_the_rate_is_the_bottlenecks(appliance: Appliance, tmp_path: Path) -> None:
    path = tmp_path / "thin"
    recorded(appliance, "thin", path, "auto", 2, rate=True)
    profile = file.load(path)
    # What a lost packet held back is delivered at once, before or after the second that begins or ends the count.
    assert profile.outbound.rate_bps == pytest.approx(5_000_000, rel=0.06)
    assert profile.inbound.rate_bps == pytest.approx(3_000_000, rel=0.06)


def test_the_fit_of_what_is_lost_evenly_is_even(real: Path) -> None:
    loss = file.load(real).inbound.loss
    assert isinstance(loss, int)
    assert loss / P32 == pytest.approx(0.02, rel=0.5)


def test_the_daemon_records_a_lane_until_somebody_stops_it(appliance: Appliance, tmp_path: Path) -> None:
    """Stopped in the second series of irtt, which prints nothing then: the 10 s of the first are kept."""
    recordings = Recordings(tmp_path / "recordings", UseCases(appliance), lambda _: None)
    recordings.start(RecordingRequest(lane="real", plan=recording.RecordingPlan("irtt", 20 * MS, 3600 * S)))
    while not recordings.get("real").probes:
        time.sleep(1)
    time.sleep(5)
    recordings.stop("real")
    recordings.wait()
    done = recordings.get("real")
    assert (done.state, done.trouble) == ("done", "")
    assert done.profile
    assert done.profile.source.tool == "irtt"
    assert done.profile.outbound.found.packets == pytest.approx(10 * 50, abs=2)
    assert done.profile.outbound.found.median_ns.holds(60 * MS)
    again = file.load(recordings.folder("real"))
    assert again.outbound.delay_ns == done.profile.outbound.delay_ns
