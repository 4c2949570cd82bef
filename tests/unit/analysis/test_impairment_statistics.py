"""Rows of a proof from made-up arrivals: what is as asked passes, what is not fails."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from emulator.analysis import impairment_statistics
from emulator.analysis.impairment_statistics import ImpairmentCheck
from emulator.hosts.tools.frame_stream import Arrival
from emulator.model.impairment import Buffer, Impairment
from emulator.model.jitter_distribution import deviation_ns, named
from emulator.model.loss_model import P32
from emulator.model.topology import Lane
from emulator.plan.qdisc_values import Shaper

MS = 10**6
CALM = Impairment(40 * MS)
LANE = Lane("far", CALM, CALM)
SENT = 3_000


def arrivals(delay_ns: int = 40 * MS) -> list[Arrival]:
    """Every frame, one a millisecond, each as late as asked."""
    return [Arrival(n, n * MS, n * MS + delay_ns, 0, False) for n in range(SENT)]


def rows(impairment: Impairment, seen: list[Arrival]) -> dict[str, bool]:
    """What passed, by name."""
    return {row.what: row.passed for row in impairment_statistics.stream_rows(LANE, impairment, SENT, seen, 10_000)}


def test_a_calm_lane_passes() -> None:
    assert rows(CALM, arrivals()) == dict.fromkeys(["loss", "duplicates", "corruption", "overtaking", "delay"], True)


def test_a_switch_takes_frames_whose_senders_address_became_a_groups() -> None:
    """One of the 752 bits of a small frame: what the hub's switch drops is no fault of the lane's."""
    flipping = replace(CALM, corrupt_p32=P32 // 2)
    for switched_bytes, asked in ((94, 50 / 752), (0, 0.0)):
        loss = impairment_statistics.stream_rows(LANE, flipping, SENT, arrivals(), 10_000, switched_bytes)[0]
        assert (loss.what, loss.asked) == ("loss", pytest.approx(asked))


def test_loss_hits_a_packet_and_its_duplicate_each_for_itself() -> None:
    twice = replace(CALM, loss_p32=P32 // 2, duplicate_p32=P32)
    asked = {row.what: row.asked for row in impairment_statistics.stream_rows(LANE, twice, SENT, arrivals(), 10_000)}
    assert (asked["loss"], asked["duplicates"]) == (pytest.approx(0, abs=1e-6), pytest.approx(25))
    # What can be marked is not lost.
    marked = impairment_statistics.stream_rows(LANE, replace(twice, ecn=True), SENT, arrivals(), 10_000)
    assert {row.what: row.asked for row in marked}["duplicates"] == pytest.approx(100)


@pytest.mark.parametrize("what", ["loss", "duplicates", "corruption", "overtaking", "delay"])
def test_each_fault_is_found_alone(what: str) -> None:
    seen = arrivals(41 * MS if what == "delay" else 40 * MS)
    if what == "loss":
        del seen[7]
    elif what == "duplicates":
        seen.insert(9, seen[7])
    elif what == "corruption":
        seen[7] = replace(seen[7], flipped=1)
    elif what == "overtaking":
        seen.insert(0, seen.pop(7))
    assert [name for name, passed in rows(CALM, seen).items() if not passed] == [what]


@pytest.mark.parametrize(
    ("impairment", "failed"),
    [
        (replace(CALM, loss_p32=P32 // 50), ["loss"]),
        (replace(CALM, duplicate_p32=P32 // 50), ["duplicates"]),
        (replace(CALM, corrupt_p32=P32 // 50), ["corruption"]),
        (replace(CALM, reorder_p32=P32 // 50), ["overtaking"]),
        (replace(CALM, loss_p32=P32 // 50, ecn=True), ["ECN marks"]),
        (replace(CALM, jitter_ns=MS), ["jitter's shape (KS)"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_asked_and_missing_is_found(impairment: Impairment, failed: list[str]) -> None:
    assert [name for name, passed in rows(impairment, arrivals()).items() if not passed] == failed


def test_jitter_of_another_shape_is_found() -> None:
    rng, table = random.Random(4), named("normal")
    impairment = replace(CALM, jitter_ns=MS, distribution="normal")
    seen = [replace(a, received_ns=a.received_ns + deviation_ns(MS, rng.choice(table))) for a in arrivals()]
    assert rows(impairment, seen)["jitter's shape (KS)"]
    assert not rows(replace(impairment, distribution="pareto"), seen)["jitter's shape (KS)"]


def test_of_those_that_overtake_each_counts_once() -> None:
    order = [3, 0, 1, 2, 2, 5, 4]
    assert impairment_statistics.overtakers([Arrival(n, 0, 0, 0, False) for n in order]) == 2


def test_frames_stand_as_far_apart_as_jitter_needs() -> None:
    assert impairment_statistics.spacing_ns(CALM) == MS
    assert impairment_statistics.spacing_ns(replace(CALM, jitter_ns=5 * MS)) == 9_997_558
    assert impairment_statistics.spacing_ns(replace(CALM, jitter_ns=20 * MS, reorder_p32=1)) == 10 * MS


def train(lane: Lane, impairment: Impairment, rate_bytes_per_s: int, buffer_frames: int) -> dict[str, bool]:
    """Of 2000 frames at once, as many as fit come out, one after the other."""
    shaper = Shaper(1_250_000, 3028, buffer_frames * 1514)
    took_ns = 1514 * 10**9 // rate_bytes_per_s
    seen = [Arrival(n, 0, 40 * MS + n * took_ns, 0, False) for n in range(buffer_frames + 1)]
    return {row.what: row.passed for row in impairment_statistics.train_rows(lane, impairment, shaper, 2_000, seen)}


def test_a_train_shows_rate_and_buffer() -> None:
    impairment = replace(CALM, rate_bps=10**7, buffer=Buffer(packets=200))
    assert train(LANE, impairment, 1_250_000, 200) == {"rate": True, "buffer": True}
    assert train(LANE, impairment, 1_240_000, 200)["rate"] is False
    assert impairment_statistics.train_frames(LANE, impairment) == 400 + (2 * 302_800 + 4 * 131_072) // 1514
    assert impairment_statistics.train_frames(LANE, CALM) == 0
    assert impairment_statistics.train_frames(LANE, replace(impairment, rate_bps=10**10)) == 0


def test_one_frame_alone_shows_no_rate() -> None:
    assert train(LANE, replace(CALM, rate_bps=10**7), 1_250_000, 0) == {}


def test_a_failed_row_is_replaced_by_the_second_measurements_and_no_other() -> None:
    loss, again = ImpairmentCheck("loss", "%", 5.0, 7.0, 6.0, 8.0), ImpairmentCheck("loss", "%", 5.0, 5.1, 4.0, 6.0)
    delay, late = (
        ImpairmentCheck("delay", "ms", 40.0, 40.0, 39.9, 40.1),
        ImpairmentCheck("delay", "ms", 40.0, 9.0, 9.0, 9.1),
    )
    rate = ImpairmentCheck("rate", "Mbit/s", 5.0, 1.0, 0.9, 1.1)
    assert impairment_statistics.repeated([loss, delay, rate], [late, again]) == [again, delay, rate]
