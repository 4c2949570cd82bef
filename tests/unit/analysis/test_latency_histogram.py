"""Delays: quantiles of an HdrHistogram, gaps of a late prober filled, irtt read."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import asdict
from support.folders import CAPTURES

from emulator.analysis import latency_histogram
from emulator.analysis.latency_histogram import Latency, Probe
from emulator.errors import MeasureError
from emulator.hosts.tools import irtt

MS = 10**6
CAPTURE = CAPTURES / "irtt-30-50ms.json"


def series(*rtts_ms: int, every_ms: int = 10) -> list[Probe]:
    return [Probe(n * every_ms * MS, rtt_ms * MS) for n, rtt_ms in enumerate(rtts_ms)]


def test_quantiles_to_four_digits() -> None:
    found = latency_histogram.summarize(
        "irtt", [*series(*range(1, 101)), Probe(1000 * MS, None), Probe(1010 * MS, None)], 10 * MS
    )
    assert (found.count, found.lost, found.corrected, found.min_ns, found.max_ns) == (100, 2, 0, MS, 100 * MS)
    assert found.p50_ns == pytest.approx(50 * MS, rel=1e-4)
    assert found.p99_ns == pytest.approx(99 * MS, rel=1e-4)
    assert sum(count for _, count in found.histogram) == 100


def test_a_long_round_trip_on_an_open_grid_is_no_omission() -> None:
    assert latency_histogram.summarize("irtt", series(346, 346, 346), 10 * MS).corrected == 0


def test_what_a_late_prober_left_out_is_put_in() -> None:
    # On a grid of 10 ms the prober was 30 ms late: the three probes of the gap would have waited 30, 20 and 10 ms more.
    late = [
        Probe(0, 5 * MS),
        Probe(10 * MS, 5 * MS),
        Probe(50 * MS, 5 * MS),
        Probe(60 * MS, 5 * MS),
    ]
    assert latency_histogram.gaps(late, 10 * MS) == [15 * MS, 25 * MS, 35 * MS]
    found = latency_histogram.summarize("irtt", late, 10 * MS)
    assert (found.corrected, found.max_ns) == (3, 35 * MS)
    assert found.p99_ns == pytest.approx(35 * MS, rel=1e-3)


def test_a_lost_probe_was_sent_and_is_no_gap() -> None:
    probes = [Probe(n * 10 * MS, None if n % 3 else 50 * MS) for n in range(31)]
    assert latency_histogram.gaps(probes, 10 * MS) == []
    found = latency_histogram.summarize("irtt", probes, 10 * MS)
    assert (found.count, found.lost, found.corrected) == (11, 20, 0)
    assert found.max_ns == 50 * MS
    assert found.p99_ns == pytest.approx(50 * MS, rel=1e-4)
    assert sum(count for _, count in found.histogram) == 11


def test_a_late_prober_is_seen_beside_lost_probes() -> None:
    # The probes due at 10 and 20 ms were not sent; the one at 30 ms was late and was lost, as was the last.
    probes = [
        Probe(0, 5 * MS),
        Probe(30 * MS, None),
        Probe(40 * MS, 7 * MS),
        Probe(50 * MS, None),
        Probe(90 * MS, None),
    ]
    assert latency_histogram.gaps(probes, 10 * MS) == [17 * MS, 27 * MS]


def test_the_jitter_of_a_timer_is_no_gap() -> None:
    assert latency_histogram.gaps([Probe(0, MS), Probe(14 * MS, MS)], 10 * MS) == []


def test_a_series_without_an_answer_has_no_figures() -> None:
    with pytest.raises(ValueError, match="no probe was answered"):
        latency_histogram.summarize("irtt", [Probe(0, None)], MS)


def test_a_latency_survives_json() -> None:
    found = latency_histogram.summarize("irtt", series(1, 2, 3), 10 * MS)
    assert Latency.from_json(json.loads(json.dumps(asdict(found)))) == found


def test_irtt_tells_each_way() -> None:
    found = latency_histogram.summarize("irtt", irtt.parse(CAPTURE.read_text()), 20 * MS)
    assert (found.count, found.lost, found.corrected) == (10, 0, 0)
    assert found.there_ns == pytest.approx(30 * MS, abs=2000)
    assert found.back_ns == pytest.approx(50 * MS, abs=2000)


def test_lost_probes_of_irtt_are_counted() -> None:
    value = json.loads(CAPTURE.read_text())
    value["round_trips"][3] |= {"lost": "true", "delay": {}}
    found = latency_histogram.summarize("irtt", irtt.parse(json.dumps(value)), 20 * MS)
    assert (found.count, found.lost) == (9, 1)
    assert found.corrected == 0, "a probe that was sent is no gap"


@pytest.mark.parametrize("text", ["", "[]", '{"round_trips": [{"lost": "false"}]}'])
def test_an_answer_that_cannot_be_read(text: str) -> None:
    with pytest.raises(MeasureError, match="cannot parse the output of irtt"):
        irtt.parse(text)
