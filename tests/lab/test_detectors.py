"""Each known pitfall provoked on a real kernel, its detector heard; tests/live/test_cpu_limit.py has the CPU's."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.lab_cells import KIB, MIB, SMALL, TCP_MEM, measure, netem, port, run, short_of_memory, spec

from emulator.control.appliance import Appliance
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.hosts import tcp_profiles
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools import iperf3, irtt
from emulator.kernel import netns
from emulator.model.tcp_profile import Profile

pytestmark = pytest.mark.usefixtures("tcp_memory_as_before")


def heard(result: CellResult) -> set[str]:
    return {text.partition(": ")[0] for text in result.judgement.findings}


def test_an_irtt_server_that_starts_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = ["sh", "-c", f"sleep 15; exec {' '.join(irtt.server_argv())}"]
    monkeypatch.setattr(irtt, "server_argv", lambda: late)
    result = measure(spec(duration_s=2), tmp_path)
    (again,) = (said for said in result.judgement.findings if said.startswith("tried-again"))
    assert again.startswith("tried-again: the idle lane's RTT by irtt needed 2 attempts: irtt got no answer from its")
    assert result.delays.idle is not None
    assert (result.delays.idle.tool, result.judgement.invalid) == ("irtt", ())


def test_an_irtt_server_that_never_answers_leaves_the_rtt_to_ping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(irtt, "server_argv", lambda: ["sleep", "1000"])
    result = measure(spec(duration_s=2), tmp_path)
    assert "no-irtt" in heard(result)
    assert result.delays.idle is not None
    assert (result.delays.idle.tool, result.judgement.invalid) == ("ping", ())
    # ping counts microseconds, and each reading of a clock takes virtual nanoseconds.
    assert 20_000_000 <= result.delays.rtt_ns < 20_010_000


def test_a_sound_cell_is_silent_and_its_delays_are_exact(tmp_path: Path) -> None:
    result = measure(spec(duration_s=4), tmp_path)
    assert heard(result) <= {"sender-figure"}
    assert (result.judgement.invalid, result.judgement.kind, result.queues.drops_limit) == ((), "line", 0)
    assert result.delays.idle is not None
    assert (
        result.delays.idle.tool,
        result.delays.idle.count,
        result.delays.idle.lost,
        result.delays.idle.corrected,
    ) == ("irtt", 20, 0, 0)
    assert 20_000_000 <= result.delays.idle.p50_ns < 20_010_000
    assert result.delays.loaded is not None
    # The queue holds one BDP, 20 ms.
    assert 20_000_000 < result.delays.loaded.p99_ns < 45_000_000


@pytest.mark.parametrize("rtt_ms", [650, 800, 2500])
def test_a_satellites_rtt_is_measured_as_it_is(tmp_path: Path, rtt_ms: int) -> None:
    """Longer than the grid of echoes, ARP's waiting and irtt's patience for a connection."""
    result = measure(spec(rtt_ms=rtt_ms, duration_s=8), tmp_path)
    assert (result.judgement.invalid, round(result.delays.rtt_ns / 1e4)) == ((), rtt_ms * 100)
    assert result.delays.idle is not None
    assert result.delays.idle.lost == 0
    assert rtt_ms * 1_000_000 <= result.delays.idle.p50_ns < rtt_ms * 1_001_000


def test_drops_by_limit(tmp_path: Path) -> None:
    result = measure(spec(profile=SMALL), tmp_path, netem("delay 10ms limit 4"))
    assert {"drops-by-limit", "changed"} <= heard(result)
    assert any("the emulator's own queue dropped" in reason for reason in result.judgement.invalid)


def test_an_rtt_that_is_not_as_set(tmp_path: Path) -> None:
    result = measure(spec(duration_s=1), tmp_path, netem("delay 10.02ms limit 5000"))
    assert "rtt-not-as-set" in heard(result)
    assert any(reason.startswith("the RTT was 20.02") for reason in result.judgement.invalid)


def test_retransmits_where_nothing_may_be_lost(tmp_path: Path) -> None:
    # The bottleneck drops some too, as always.
    result = measure(spec(), tmp_path, netem("delay 10ms loss 1% limit 5000"))
    assert result.transfer.retransmits > result.queues.drops_buffer > 0
    assert "retransmits-without-loss" in heard(result)


def test_an_impossible_figure(tmp_path: Path) -> None:
    def widen(appliance: Appliance, _: CellSpec) -> None:
        words = ["parent", "1:1", "handle", "10:", "tbf", "rate", "20mbit", "burst", "20k", "limit", "500k"]
        run("tc", "qdisc", "change", "dev", port(appliance), *words)

    assert "impossible" in heard(measure(spec(), tmp_path, widen))


def test_loss_that_would_hit_whole_super_frames(tmp_path: Path) -> None:
    def offload(*_: object) -> None:
        for end in ("lhx-near", "lhx-far"):
            run("ip", "link", "set", end, "gso_max_segs", "65535")

    result = measure(spec(loss=0.001, duration_s=1), tmp_path, offload)
    assert {"changed", "loss-per-super-frame"} <= heard(result)


def test_tcp_memory(tmp_path: Path) -> None:
    result = measure(spec(rtt_ms=80, profile=SMALL), tmp_path, short_of_memory(16))
    assert "tcp-mem" in heard(result)


def test_tcp_memory_that_was_short_before_it_began(tmp_path: Path) -> None:
    """Somebody else's connection holds 3 MiB that nobody reads, and the kernel says nothing any more."""
    with contextlib.ExitStack() as stack:

        def hoard(_: Appliance, one: CellSpec) -> None:
            with netns.inside("lh-far"):
                server = stack.enter_context(socket.create_server(("", 7000)))
            with netns.inside("lh-near"):
                client = socket.create_connection((str(one.topology.address("far").ip), 7000))
            stack.enter_context(client)
            stack.enter_context(server.accept()[0])
            client.sendall(bytes(2 * MIB))
            TCP_MEM.write_text("64 128 100000")
            client.sendall(bytes(MIB))
            time.sleep(2)

        roomy = Profile("roomy", (4096, 4 * MIB, 4 * MIB), (4096, 4 * MIB, 4 * MIB))
        result = measure(spec(20, 10, roomy, duration_s=1), tmp_path, hoard)
    assert result.machine.counters["TcpExtTCPMemoryPressures"] == 0
    assert "TCP was short of memory before the cell began: raise tcp_mem" in result.judgement.invalid
    assert (result.judgement.kind, result.judgement.evidence) == (
        "emulator",
        "TCP ran short of tcp_mem before it began",
    )


def test_cached_metrics(tmp_path: Path) -> None:
    def talk_before(_: Appliance, one: CellSpec) -> None:
        with netns.inside("lh-far"):
            server = socket.create_server(("", 7000))
        with netns.inside("lh-near"):
            client = socket.create_connection((str(one.topology.address("far").ip), 7000))
        with server, client, server.accept()[0] as served:
            client.sendall(bytes(100_000))
            client.shutdown(socket.SHUT_WR)
            while served.recv(65536):
                pass
            served.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""

    assert "cached-metrics" in heard(measure(spec(profile=tcp_profiles.DEFAULT, duration_s=1), tmp_path, talk_before))
    assert "cached-metrics" not in heard(measure(spec(duration_s=1), tmp_path, talk_before))


def test_only_one_end_tuned(tmp_path: Path) -> None:
    def untune(_: Appliance, one: CellSpec) -> None:
        NamespaceHost(one.lane.name).write_sysctl("net.ipv4.tcp_rmem", f"4096 {64 * KIB} {64 * KIB}")

    result = measure(spec(rtt_ms=100, duration_s=2), tmp_path, untune)
    assert "one-end-tuned" in heard(result)
    assert result.judgement.kind == "receive window"


def test_the_senders_figure_is_too_high(tmp_path: Path) -> None:
    result = measure(spec(profile=tcp_profiles.DEFAULT, rtt_ms=100, duration_s=2), tmp_path)
    assert "sender-figure" in heard(result)
    assert result.transfer.sent_bytes > 1.02 * result.transfer.received_bytes


@pytest.mark.parametrize(
    ("words", "detector"), [(["-l", "1M"], "quantised-intervals"), (["-O", "1"], "omit")], ids=["blocks", "omit"]
)
def test_how_iperf3_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], detector: str
) -> None:
    ours = iperf3.client_argv
    monkeypatch.setattr(iperf3, "client_argv", lambda address, load: [*ours(address, load), *words])
    assert detector in heard(measure(spec(duration_s=2), tmp_path))


def test_a_run_too_short_for_its_rtt(tmp_path: Path) -> None:
    assert "short-run" in heard(measure(spec(rtt_ms=100, duration_s=2), tmp_path))


def test_both_ways_at_once(tmp_path: Path) -> None:
    one = spec(duration_s=2, direction="both")
    slow = replace(one.lane.inbound, rate_bps=5_000_000)
    result = measure(replace(one, topology=one.topology.with_lane(replace(one.lane, inbound=slow))), tmp_path)
    outbound, inbound = result.ways
    assert (outbound.direction, inbound.direction) == ("outbound", "inbound")
    # Each carries the other's acknowledgements beside its data.
    assert inbound.throughput.steady_bytes_per_s == result.steady_bytes_per_s
    assert (
        0.6 * 5e6 / 8
        < inbound.throughput.steady_bytes_per_s
        < 5e6 / 8
        < outbound.throughput.steady_bytes_per_s
        < 10e6 / 8
    )
    assert min(outbound.queues.drops_buffer, inbound.queues.drops_buffer) > 0


@pytest.mark.parametrize("direction", ["outbound", "inbound"])
def test_one_way_delays_prove_the_split(tmp_path: Path, direction: str) -> None:
    one = spec(rtt_ms=80, duration_s=1, direction=direction)
    lane = replace(
        one.lane,
        outbound=replace(one.lane.outbound, delay_ns=30_000_000),
        inbound=replace(one.lane.inbound, delay_ns=50_000_000),
    )
    idle = measure(replace(one, topology=one.topology.with_lane(lane)), tmp_path).delays.idle
    assert idle is not None
    assert idle.there_ns is not None
    assert idle.back_ns is not None
    there_ms, back_ms = (30, 50) if direction == "outbound" else (50, 30)
    # A few microseconds are irtt's own, between reading its clock and sending.
    assert 0 <= idle.there_ns - there_ms * 1_000_000 < 10_000
    assert 0 <= idle.back_ns - back_ms * 1_000_000 < 10_000
