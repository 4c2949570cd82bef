"""Advice: the one setting, from what to what, and what it is worth."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.made_results import PATH, SEEN, changed, seen

from emulator.analysis import throughput_models, tuning_advice
from emulator.analysis.tcp_path import TcpPath
from emulator.analysis.verdict import Buffers, Evidence, judge
from emulator.experiment import path_calculator
from emulator.model.buffer_depth import BufferDepth
from emulator.model.impairment import Buffer

MIB, MS = 2**20, 10**6


def given(path: TcpPath, seen: Evidence) -> str:
    prediction = throughput_models.predict(path, tuning_advice.measured_windows(seen))
    return str(tuning_advice.advise(path, seen, judge(path, seen), prediction))


def test_a_send_buffer_is_raised_to_what_the_receiver_allows() -> None:
    # 4.5 MiB of window at the receiver; of the 4 MiB buffer 2.5 MiB were in flight.
    seen = changed(SEEN, sndbuf_share=1.0, peer_window_bytes=9 * MIB // 2)
    assert given(PATH, seen) == "tcp_wmem max from 4 MiB to 8 MiB: 140.6 MiB/s (1.180 Gbit/s), then receive window"


def test_a_larger_send_buffer_is_not_counted_on_to_have_as_large_a_share_in_flight() -> None:
    """As measured at 346 ms: 3.98 MiB of 4 MiB in flight, but 3.2 MiB of 5 MiB."""
    far = replace(PATH, rtt_ns=346 * MS)
    seen = changed(SEEN, sndbuf_share=1.0, in_flight_bytes=4_178_838, peer_window_bytes=4_706_767)
    assert given(far, seen) == "tcp_wmem max from 4 MiB to 7 MiB: 13.0 MiB/s (0.109 Gbit/s), then receive window"


def test_a_receive_window_that_has_grown_to_its_most_is_the_next_limit() -> None:
    """As measured at 500 Mbit/s and 250 ms: of 6 MiB the kernel offers 3.59 MiB, however long the run."""
    far = replace(PATH, rate_bps=500 * 10**6, rtt_ns=250 * MS)
    windows = {"in_flight_bytes": 2_960_164, "most_in_flight_bytes": 2_960_164, "peer_window_bytes": 3_759_320}
    seen = changed(SEEN, sndbuf_share=1.0, steady_bytes_per_s=10.5 * MIB, **windows)
    assert given(far, seen) == "tcp_wmem max from 4 MiB to 6 MiB: 14.3 MiB/s (0.120 Gbit/s), then receive window"
    small = changed(seen, in_flight_bytes=MIB, most_in_flight_bytes=MIB)
    assert given(far, small).endswith(": 18.0 MiB/s (0.151 Gbit/s), then receive window"), "it may grow still"


def test_a_send_buffer_alone_is_raised_to_the_line() -> None:
    tuned = Buffers(512 * MIB, 512 * MIB)
    seen = changed(SEEN, sndbuf_share=1.0, receiver=tuned, in_flight_bytes=4 * MIB)
    assert (
        given(replace(PATH, rtt_ns=22 * MS), seen)
        == "tcp_wmem max from 4 MiB to 38 MiB: 1140 MiB/s (9.564 Gbit/s), then line"
    )


def test_a_receive_window_is_raised() -> None:
    seen = changed(SEEN, rwnd_share=1.0, sender=Buffers(512 * MIB, 512 * MIB))
    assert given(PATH, seen) == "tcp_rmem max from 6 MiB to 73 MiB: 1140 MiB/s (9.564 Gbit/s), then line"


def test_where_no_buffer_is_large_enough_more_streams_are() -> None:
    path = TcpPath(10**11, 346 * MS)
    seen = changed(SEEN, sndbuf_share=1.0, receiver=Buffers(2**30, 2**30), in_flight_bytes=4 * MIB)
    many = changed(seen, peer_window_bytes=8 * 2**30, steady_bytes_per_s=11 * MIB)
    assert given(path, many).startswith("streams from 1 to 6 of the largest buffers")


def test_loss_wants_bbr_and_bbr_wants_streams() -> None:
    lossy, seen = replace(PATH, loss=1e-4), changed(SEEN, receiver=Buffers(2**29, 2**29), sender=Buffers(2**29, 2**29))
    assert given(lossy, seen) == "congestion control from cubic to bbr: 1140 MiB/s (9.564 Gbit/s), then line"
    bbr = replace(lossy, congestion_control="bbr")
    assert given(bbr, seen) == "streams from 1 to 14: 1140 MiB/s (9.564 Gbit/s), then line"


def test_a_buffer_below_a_paced_burst_is_enlarged_and_any_other_wants_bbr() -> None:
    large = Buffers(2**29, 2**29)
    seen = changed(SEEN, drops_buffer=9, receiver=large, sender=large)
    # 1 ms at 10 Gbit/s is 1.25 MB; rate x RTT is 40 MB.
    small = replace(PATH, buffer_bytes=1_240_000)
    lifted = "the lane's buffer from 1.18 MiB to 39063 KiB: 1140 MiB/s (9.564 Gbit/s), then line"
    assert [given(replace(small, congestion_control=name), seen) for name in ("cubic", "bbr")] == [lifted] * 2
    assert BufferDepth.parse("39063 KiB").fixed == Buffer(bytes=39063 * 1024), "the advice can be typed"
    for path in (PATH, replace(small, buffer_bytes=1_260_000)):
        assert given(path, seen).startswith("congestion control from cubic to bbr: 1140 MiB/s")


def test_a_window_that_a_route_limits_is_what_must_be_larger() -> None:
    window = Buffers(3 * MIB, 4 * MIB, MIB)
    asked = changed(SEEN, receiver=window, sender=Buffers(6 * MIB, 64 * MIB), rwnd_share=0.9, peer_window_bytes=MIB)
    assert tuning_advice.windows(asked.sender, window).receive_bytes == MIB
    assert given(PATH, asked).startswith("window from 1 MiB to 37 MiB: ")


def test_a_slow_start_wants_time() -> None:
    seen = changed(SEEN, settled=False, wanted_duration_s=40, receiver=Buffers(2**29, 2**29))
    assert given(PATH, seen).startswith("duration from 10 s to 40 s: ")


def test_memory_wants_pages() -> None:
    assert given(PATH, changed(SEEN, memory_pressures=1)).startswith("tcp_mem from too little to ")


def test_what_memory_left_of_the_windows_is_no_prediction_for_more_memory() -> None:
    starved = {"rwnd_share": 1.0, "peer_window_bytes": 64 * 1024, "in_flight_bytes": 32 * 1024}
    seen = changed(SEEN, memory_pressures=1, sender=Buffers(512 * MIB, 512 * MIB), **starved)
    # 4.5 MiB of the receiver's 6 MiB in each round trip.
    assert given(PATH, seen).endswith(" pages: 140.6 MiB/s (1.180 Gbit/s), then receive window")


@pytest.mark.parametrize(
    "changes",
    [{"steady_bytes_per_s": 1139.0 * MIB}, {}, {"receiver_cpu_percent": 99.0}],
    ids=["line", "unknown", "cpu"],
)
def test_no_advice_where_no_setting_helps(changes: dict[str, float]) -> None:
    assert given(PATH, seen(**changes)) == "None"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [{"sndbuf_share": 1.0, "in_flight_bytes": 0}, {"rwnd_share": 1.0, "peer_window_bytes": 0}],
    ids=["nothing-in-flight", "window-closed"],
)
def test_no_advice_about_a_buffer_that_was_empty_when_it_was_read(changes: dict[str, float]) -> None:
    assert given(PATH, changed(SEEN, **changes)) == "None"


def test_how_many_streams_fill_a_line() -> None:
    assert tuning_advice.streams_needed(TcpPath(10**9, 71 * MS), throughput_models.Windows(MIB, MIB)) == 9
    assert tuning_advice.streams_needed(TcpPath(10**9, 0), throughput_models.Windows(MIB, MIB)) == 1


def test_host_commands() -> None:
    found = path_calculator.host_advice(TcpPath(10**9, 71 * MS, loss=1e-4))
    assert "sysctl -w net.ipv4.tcp_congestion_control='bbr'" in found.commands
    assert found.commands[-2].endswith("initcwnd 45")
    assert (found.then, round(found.after / MIB)) == ("line", 114)
    assert found.before < found.after
