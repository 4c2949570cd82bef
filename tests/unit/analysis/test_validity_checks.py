"""Detectors without a kernel: each speaks when it must and is silent otherwise. tests/lab provokes them for real."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.made_results import PATH, SEEN

from emulator.analysis import validity_checks
from emulator.analysis.validity_checks import Finding
from emulator.analysis.verdict import Buffers

MIB = 2**20

CASES: list[tuple[str, dict[str, Any], str]] = [
    ("drops-by-limit", {"drops_limit": 4, "retransmits": 4}, "the emulator's own queue dropped 4 packets (limit)"),
    ("tcp-mem", {"memory_pressures": 2}, "TCP ran into memory pressure 2 times: raise tcp_mem"),
    ("tcp-mem", {"memory_short": True}, "TCP was short of memory before it began: raise tcp_mem"),
    ("impossible", {"steady_bytes_per_s": 95 * MIB}, "95.0 MiB/s is more than the possible 93.8 MiB/s"),
    ("retransmits-without-loss", {"retransmits": 5}, "5 segments were sent again although nothing was dropped"),
    (
        "retransmits-without-loss",
        {"retransmits": 49, "drops_buffer": 30},
        "49 segments were sent again although only 30 packets were dropped",
    ),
    ("rtt-not-as-set", {"rtt_before_ns": 32_011_000}, "the RTT was 32.011 ms where 32.000 ms was asked for"),
    ("changed", {"drift": ("port x: limit 1",)}, "the lane was changed behind our back: port x: limit 1"),
    (
        "cached-metrics",
        {"cached_metrics": 1},
        "the sender remembered 1 peers' TCP metrics: flush with ip tcp_metrics flush",
    ),
    (
        "omit",
        {"omit_s": 3},
        "iperf3 omitted 3 s on each end's own clock (-O): trim the receiver's intervals instead",
    ),
    ("cpu", {"receiver_cpu_percent": 97.0}, "iperf3 used 97 % of a core: the CPU may be the limit"),
    ("cpu", {"core_percent": 99.6}, "a core was busy for 100 % of the time: the CPU may be the limit"),
    (
        "one-end-tuned",
        {"sender": Buffers(6 * MIB, 64 * MIB)},
        "only one end is tuned: 64 MiB to send, 6 MiB to receive; the smaller limits",
    ),
    (
        "sender-figure",
        {"sent_bytes": 997 * MIB},
        "the sender counted 148.0 MiB more than had arrived: only the receiver's figure counts",
    ),
    (
        "quantised-intervals",
        {"block_bytes": 8 * MIB, "interval_bytes": 16 * MIB},
        "iperf3 counts in blocks of 50% of an interval: use smaller blocks (-l) or longer intervals (-i)",
    ),
    (
        "short-run",
        {"wanted_duration_s": 55},
        "10 s are short for this RTT: 55 s hold ten slow starts and a hundred round trips",
    ),
]


@pytest.mark.parametrize(
    ("name", "changes", "text"), CASES, ids=[f"{case[0]}-{number}" for number, case in enumerate(CASES)]
)
def test_each_speaks_alone(name: str, changes: dict[str, Any], text: str) -> None:
    (finding,) = validity_checks.find(PATH, replace(SEEN, **changes))
    assert (finding.detector, finding.text) == (name, text)


def test_loss_per_super_frame() -> None:
    lossy, seen = replace(PATH, loss=0.01), replace(SEEN, drift=("port lhh-far: gso_max_segs 65535, not 1",))
    assert Finding(
        "loss-per-super-frame",
        "offloads are on while loss is asked for: it hits whole super-frames, not packets",
        True,
    ) in validity_checks.find(lossy, seen)
    assert [finding.detector for finding in validity_checks.find(PATH, seen)] == ["changed"]


def test_every_detector_has_a_case() -> None:
    assert {name for name, _, _ in validity_checks.DETECTORS} == {case[0] for case in CASES} | {"loss-per-super-frame"}


def test_a_sound_cell_has_nothing_against_it() -> None:
    assert validity_checks.find(PATH, SEEN) == []
    assert validity_checks.find(PATH, replace(SEEN, rtt_before_ns=32_010_000)) == []
    assert validity_checks.find(PATH, replace(SEEN, drops_buffer=30, retransmits=48)) == []
    far = replace(PATH, rtt_ns=validity_checks.FIRST_TIMEOUT_NS)
    said = [{one.detector for one in validity_checks.find(far, replace(SEEN, retransmits=n))} for n in (1, 2)]
    assert ["retransmits-without-loss" in names for names in said] == [False, True]
    assert validity_checks.find(PATH, replace(SEEN, drops_buffer=3, drop_segments=45, retransmits=135)) == []
    assert validity_checks.find(replace(PATH, loss=0.01), replace(SEEN, retransmits=3, drops_limit=None)) == []


def test_no_window_makes_more_than_the_line_possible() -> None:
    seen = replace(SEEN, steady_bytes_per_s=1200 * MIB, peer_window_bytes=100 * MIB)
    (finding,) = validity_checks.find(PATH, seen)
    assert finding == Finding("impossible", "1200.0 MiB/s is more than the possible 1140.1 MiB/s", True)
