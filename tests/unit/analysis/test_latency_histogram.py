"""Delays: quantiles of an HdrHistogram, gaps of a late prober filled, irtt read."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import asdict
from support.folders import CAPTURES

from emulator.analysis import latency_histogram
from emulator.analysis.latency_histogram import AnsweredProbe, Latency
from emulator.errors import MeasureError
from emulator.hosts.tools import irtt

MS = 10**6
CAPTURE = CAPTURES / "irtt-30-50ms.json"


def series(*rtts_ms: int, every_ms: int = 10) -> list[AnsweredProbe]:
    return [AnsweredProbe(n * every_ms * MS, rtt_ms * MS) for n, rtt_ms in enumerate(rtts_ms)]


def test_quantiles_to_four_digits() -> None:
    found = latency_histogram.summarize("irtt", series(*range(1, 101)), lost=2, every_ns=10 * MS)
    assert (found.count, found.lost, found.corrected, found.min_ns, found.max_ns) == (100, 2, 0, MS, 100 * MS)
    assert found.p50_ns == pytest.approx(50 * MS, rel=1e-4)
    assert found.p99_ns == pytest.approx(99 * MS, rel=1e-4)
    assert sum(count for _, count in found.histogram) == 100


def test_a_long_round_trip_on_an_open_grid_is_no_omission() -> None:
    assert latency_histogram.summarize("irtt", series(346, 346, 346), 0, 10 * MS).corrected == 0


def test_what_a_late_prober_left_out_is_put_in() -> None:
    # On a grid of 10 ms the prober was 30 ms late: the three probes of the gap would have waited 30, 20 and 10 ms more.
    late = [
        AnsweredProbe(0, 5 * MS),
        AnsweredProbe(10 * MS, 5 * MS),
        AnsweredProbe(50 * MS, 5 * MS),
        AnsweredProbe(60 * MS, 5 * MS),
    ]
    assert latency_histogram.gaps(late, 10 * MS) == [15 * MS, 25 * MS, 35 * MS]
    found = latency_histogram.summarize("irtt", late, 0, 10 * MS)
    assert (found.corrected, found.max_ns) == (3, 35 * MS)
    assert found.p99_ns == pytest.approx(35 * MS, rel=1e-3)


def test_the_jitter_of_a_timer_is_no_gap() -> None:
    assert latency_histogram.gaps([AnsweredProbe(0, MS), AnsweredProbe(14 * MS, MS)], 10 * MS) == []


def test_a_series_without_an_answer_has_no_figures() -> None:
    with pytest.raises(ValueError, match="no probe was answered"):
        latency_histogram.summarize("irtt", [], 5, MS)


def test_a_latency_survives_json() -> None:
    found = latency_histogram.summarize("irtt", series(1, 2, 3), 0, 10 * MS)
    assert Latency.from_json(json.loads(json.dumps(asdict(found)))) == found


def test_irtt_tells_each_way() -> None:
    probes, lost = irtt.parse(CAPTURE.read_text())
    found = latency_histogram.summarize("irtt", probes, lost, 20 * MS)
    assert (found.count, found.lost, found.corrected) == (10, 0, 0)
    assert found.there_ns == pytest.approx(30 * MS, abs=2000)
    assert found.back_ns == pytest.approx(50 * MS, abs=2000)


def test_lost_probes_of_irtt_are_counted() -> None:
    value = json.loads(CAPTURE.read_text())
    value["round_trips"][3] |= {"lost": "true", "delay": {}}
    probes, lost = irtt.parse(json.dumps(value))
    assert (len(probes), lost) == (9, 1)


@pytest.mark.parametrize("text", ["", "[]", '{"round_trips": [{"lost": "false"}]}'])
def test_an_answer_that_cannot_be_read(text: str) -> None:
    with pytest.raises(MeasureError, match="cannot parse the output of irtt"):
        irtt.parse(text)
