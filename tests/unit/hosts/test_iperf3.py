"""The parser of iperf3's JSON, on captures of iperf3 3.18 in the lab: 10 Gbit/s, 32 ms, 3 s."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from support.folders import CAPTURES

from emulator.analysis.tcp_path import Interval
from emulator.errors import MeasureError
from emulator.hosts.tools import iperf3
from emulator.hosts.tools.workload import Load
from emulator.model import sweep_axes

ONE_STREAM = (CAPTURES / "iperf3-32ms-1.json").read_text()
LOAD = Load(
    duration_s=10, streams=1, congestion_control=None, both=False, interval_s=0.2, expected_bytes_per_s=1.0, rtt_ns=0
)


def test_the_receivers_figures_of_one_stream() -> None:
    run = iperf3.parse(ONE_STREAM)
    assert (run.received_bytes, run.received_s, run.retransmits) == (243269632, 3.033002, 1764)
    assert (run.program, run.tool, run.threads, run.caveats) == ("iperf3", "iperf 3.18", 1, ())
    assert run.intervals[:2] == (Interval(0, 1.001001, 60817408), Interval(1.001001, 2.001, 90177536))
    assert sum(interval.bytes for interval in run.intervals) == run.received_bytes


def test_four_streams_are_summed_at_the_receiver() -> None:
    run = iperf3.parse((CAPTURES / "iperf3-32ms-4.json").read_text())
    assert (run.received_bytes, run.sent_bytes, len(run.intervals)) == (625999872, 631242752, 4)
    assert sum(interval.bytes for interval in run.intervals) == run.received_bytes


def test_a_test_both_ways_has_two_directions() -> None:
    text = (CAPTURES / "iperf3-20ms-both.json").read_text()
    there, back = iperf3.parse(text), iperf3.parse(text, reverse=True)
    assert (there.received_bytes, there.sent_bytes, there.retransmits) == (1875968, 2064384, 13)
    assert (back.received_bytes, back.sent_bytes, back.retransmits) == (1892352, 2203648, 21)
    assert (len(there.intervals), len(back.intervals)) == (5, 4)
    assert sum(interval.bytes for interval in there.intervals) == there.received_bytes
    # The windows of the end that sends.
    assert (there.ramp[0].cwnd_bytes, back.ramp[0].cwnd_bytes) == (28960, 18824)


def test_a_failed_test_is_an_error_in_iperf3s_words() -> None:
    with pytest.raises(MeasureError, match=r"^iperf3: unable to connect to server .* Connection refused$"):
        iperf3.parse((CAPTURES / "iperf3-refused.json").read_text())


def test_nonsense_is_an_error() -> None:
    with pytest.raises(MeasureError, match=r"^iperf3 printed no JSON but 'Segmentation fault'$"):
        iperf3.parse("Segmentation fault\n")


def test_an_answer_without_the_receivers_intervals_is_an_error() -> None:
    report = json.loads(ONE_STREAM)
    del report["server_output_json"]
    said = "^iperf3's JSON lacks 'server_output_json': 3.17 or newer is needed at both ends$"
    with pytest.raises(MeasureError, match=said):
        iperf3.parse(json.dumps(report))


@pytest.mark.parametrize(
    ("rate_bps", "block"), [(10**10, 2**20), (10**9, 2**17), (10**8, 2**14), (10**6, 2**12), (8, 2**12)]
)
def test_blocks_shrink_with_the_rate(rate_bps: int, block: int) -> None:
    load = replace(LOAD, streams=8, congestion_control="bbr", expected_bytes_per_s=rate_bps / 8)
    argv = iperf3.client_argv("10.0.0.1", load)
    assert argv == (f"iperf3 -c 10.0.0.1 -p 5201 -t 10 -P 8 -Z -l {block} -i 0.2 -J --get-server-output -C bbr".split())


def test_a_client_may_receive_too() -> None:
    assert iperf3.client_argv("10.0.0.1", replace(LOAD, both=True))[-1] == "--bidir"


def test_the_server_serves_once_and_notes_as_often_as_asked() -> None:
    assert iperf3.server_argv(0.2) == ["iperf3", "-s", "-1", "-J", "-i", "0.2", "-p", "5201"]


def test_patience_covers_the_set_up() -> None:
    assert iperf3.longest_s(40, 346 * 10**6) == pytest.approx(40 + 6.92 + 60)


@pytest.mark.parametrize(
    ("asked", "check", "fatal", "text"),
    [
        (
            {"omit": 3},
            "omit",
            True,
            "iperf3 omitted 3 s on each end's own clock (-O): trim the receiver's intervals instead",
        ),
        (
            {"blksize": 2**25},
            "quantised-intervals",
            False,
            "iperf3 counts in blocks of 55% of an interval: use smaller blocks (-l) or longer intervals (-i)",
        ),
    ],
)
def test_what_its_own_counting_costs(asked: dict[str, int], check: str, fatal: bool, text: str) -> None:
    report = json.loads(ONE_STREAM)
    report["start"]["test_start"] |= asked
    (caveat,) = iperf3.parse(json.dumps(report)).caveats
    assert (caveat.check, caveat.fatal, caveat.text) == (check, fatal, text)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"streams": 129}, "iperf3 allows at most 128 streams, not 129"),
        ({"duration_s": 86_401}, "iperf3 runs for at most 86400 s"),
    ],
)
def test_what_it_would_refuse_is_refused_before(change: dict[str, int], said: str) -> None:
    iperf3.Iperf3().check(LOAD)
    with pytest.raises(ValueError, match=said):
        iperf3.Iperf3().check(replace(LOAD, **change))


def test_no_sweep_may_ask_for_more_than_it_can_do() -> None:
    assert (sweep_axes.MOST_STREAMS, sweep_axes.LONGEST_S) <= (iperf3.MOST_STREAMS, iperf3.LONGEST_S)


def test_the_received_rate_leaves_out_the_intervals_in_which_the_queue_fills_and_empties() -> None:
    bytes_of = (0, 40, 83, 82, 83, 82, 30, 0)
    intervals = tuple(Interval(n / 10, (n + 1) / 10, frames * 1000) for n, frames in enumerate(bytes_of))
    assert iperf3.received_rate(intervals) == pytest.approx(825_000)
    assert iperf3.received_rate(intervals[:3]) == pytest.approx(615_000), "too few: all that have data"
    assert iperf3.received_rate(intervals[:1]) == 0
