"""Detectors without a kernel: each speaks when it must and is silent otherwise. tests/lab provokes them for real."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.made_results import MIB, PATH, SEEN, seen

from emulator.analysis import validity_checks
from emulator.analysis.transfer import Caveat
from emulator.analysis.verdict import Buffers

CASES: list[tuple[str, dict[str, Any], str]] = [
    ("drops-by-limit", {"drops_limit": 4, "retransmits": 4}, "the emulator's own queue dropped 4 packets (limit)"),
    ("tcp-mem", {"memory_pressures": 2}, "TCP ran into memory pressure 2 times: raise tcp_mem"),
    ("tcp-mem", {"memory_short": True}, "TCP was short of memory before the cell began: raise tcp_mem"),
    (
        "impossible",
        {"steady_bytes_per_s": 95 * MIB},
        "95.0 MiB/s (0.797 Gbit/s) exceeds the possible 93.8 MiB/s (0.786 Gbit/s)",
    ),
    ("retransmits-without-loss", {"retransmits": 5}, "TCP retransmitted 5 segments although no packet was dropped"),
    (
        "retransmits-without-loss",
        {"retransmits": 49, "drops_buffer": 30},
        "TCP retransmitted 49 segments although only 30 packets were dropped",
    ),
    ("rtt-not-as-set", {"rtt_before_ns": 32_011_000}, "the RTT was 32.011 ms instead of the requested 32.000 ms"),
    ("changed", {"drift": ("port x: limit 1",)}, "something outside Longhaul changed the lane: port x: limit 1"),
    (
        "cached-metrics",
        {"cached_metrics": 1},
        "the sender remembered 1 peers' TCP metrics: run ip tcp_metrics flush",
    ),
    (
        "listen-queue-full",
        {"counters": {"TcpExtListenDrops": 4}, "retransmits": 4},
        "a full listen queue dropped 4 attempts to connect, and TCP tried again after a second: raise its backlog",
    ),
    ("cpu", {"receiver_cpu_percent": 97.0}, "iperf3 used 97 % of a core: the CPU may be the limit"),
    ("cpu", {"core_percent": 99.6}, "a core was busy for 100 % of the time: the CPU may be the limit"),
    (
        "one-end-tuned",
        {"sender": Buffers(6 * MIB, 64 * MIB), "rwnd_share": 0.9},
        "the two ends are tuned differently: 64 MiB to send, 6 MiB to receive; the smaller buffer limits",
    ),
    (
        "one-end-tuned",
        {"receiver": Buffers(32 * MIB, 4 * MIB), "sndbuf_share": 0.9},
        "the two ends are tuned differently: 4 MiB to send, 32 MiB to receive; the smaller buffer limits",
    ),
    (
        "window-not-as-asked",
        {"receiver": Buffers(6 * MIB, 4 * MIB, 5 * MIB), "rwnd_share": 0.9},
        "the receiver offered 3 MiB instead of 5 MiB: only 64 KiB, 128 KiB, 256 KiB and so on are exact",
    ),
    (
        "sender-figure",
        {"sent_bytes": 997 * MIB},
        "the sender counted 148 MiB more than arrived: only the receiver's figure is valid",
    ),
    (
        "short-run",
        {"wanted_duration_s": 55},
        "10 s is short for this RTT: 55 s hold ten slow starts and a hundred round trips",
    ),
]


@pytest.mark.parametrize(
    ("name", "changes", "text"), CASES, ids=[f"{case[0]}-{number}" for number, case in enumerate(CASES)]
)
def test_each_speaks_alone(name: str, changes: dict[str, Any], text: str) -> None:
    (finding,) = validity_checks.find(PATH, seen(**changes))
    assert (finding.check, finding.text) == (name, text)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rwnd_share": 0.9},
        {"sender": Buffers(64 * MIB, 64 * MIB), "receiver": Buffers(9 * MIB, 4 * MIB, 3 * MIB), "rwnd_share": 0.9},
        {"steady_bytes_per_s": 1139 * MIB, "peer_window_bytes": 64 * MIB, "sndbuf_share": 0.9},
    ],
    ids=["neither", "the-larger", "asked", "line"],
)
def test_ends_of_different_buffers_do_no_harm_where_the_smaller_does_not_limit(changes: dict[str, Any]) -> None:
    """Linux 7.2 lets the receive buffer grow to 32 MiB by itself, the send buffer to 4 MiB."""
    assert validity_checks.find(PATH, seen(**{"receiver": Buffers(32 * MIB, 4 * MIB), **changes})) == []


def test_loss_per_super_frame() -> None:
    lossy, drifted = replace(PATH, loss=0.01), seen(drift=("port lhh-far: gso_max_segs 65535, not 1",))
    assert Caveat(
        "loss-per-super-frame",
        "offloads are on while the lane has loss: a loss hits whole super-frames, not packets",
        True,
    ) in validity_checks.find(lossy, drifted)
    assert [finding.check for finding in validity_checks.find(PATH, drifted)] == ["changed"]


def test_what_the_workload_says_of_itself_is_told_too() -> None:
    caveat = Caveat("blocks", "it counts in blocks", False)
    assert validity_checks.find(PATH, seen(caveats=(caveat,))) == [caveat]


def test_what_the_workload_does_not_count_is_not_judged() -> None:
    assert validity_checks.find(PATH, seen(sent_bytes=None)) == []


def test_every_detector_has_a_case() -> None:
    assert {name for name, _, _ in validity_checks.DETECTORS} == {case[0] for case in CASES} | {"loss-per-super-frame"}


def test_a_sound_cell_has_nothing_against_it() -> None:
    assert validity_checks.find(PATH, SEEN) == []
    assert validity_checks.find(PATH, seen(rtt_before_ns=32_010_000)) == []
    assert validity_checks.find(PATH, seen(drops_buffer=30, retransmits=48)) == []
    far = replace(PATH, rtt_ns=validity_checks.FIRST_TIMEOUT_NS)
    said = [{one.check for one in validity_checks.find(far, seen(retransmits=n))} for n in (1, 2)]
    assert ["retransmits-without-loss" in names for names in said] == [False, True]
    assert validity_checks.find(PATH, seen(drops_buffer=3, drop_segments=45, retransmits=135)) == []
    assert validity_checks.find(replace(PATH, loss=0.01), seen(retransmits=3, drops_limit=None)) == []


def test_the_last_part_of_an_unsettled_stream_may_bring_what_waited_for_a_lost_segment() -> None:
    fast = seen(steady_bytes_per_s=1200 * MIB, peer_window_bytes=100 * MIB)
    growing = replace(fast, throughput=replace(fast.throughput, settled=False, mean_bytes_per_s=1100 * MIB))
    assert "impossible" not in {one.check for one in validity_checks.find(PATH, growing)}
    whole = replace(growing, throughput=replace(growing.throughput, mean_bytes_per_s=1200 * MIB))
    assert "impossible" in {one.check for one in validity_checks.find(PATH, whole)}


def test_no_window_makes_more_than_the_line_possible() -> None:
    fast = seen(steady_bytes_per_s=1200 * MIB, peer_window_bytes=100 * MIB)
    (finding,) = validity_checks.find(PATH, fast)
    text = "1200 MiB/s (10.066 Gbit/s) exceeds the possible 1140 MiB/s (9.564 Gbit/s)"
    assert finding == Caveat("impossible", text, True)
