"""Verdicts on trial: what is drawn, how advice is read and followed, and what the table says of misses."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from emulator.analysis import verdict
from support.lab_cells import MS
from support.planted_cells import BUFFER, MEMORY, PLANTS, draw, drawn, far
from support.verdict_trial import Followed, Outcome, Trial, as_advised, cell_name

ROUNDS = 62


def test_the_same_seed_draws_the_same_cells_of_every_limiter_and_another_seed_draws_others() -> None:
    cells = drawn(7, ROUNDS)
    assert [planted.spec for planted in cells] == [draw(7, number).spec for number in range(ROUNDS)]
    assert {planted.limiter for planted in cells} == set(PLANTS)
    assert len({cell_name(planted) for planted in (*cells, *drawn(8, ROUNDS))}) > ROUNDS


def test_the_cells_of_the_kernels_own_buffers_are_far_and_need_larger_ones() -> None:
    for planted in far():
        assert draw(8, planted.number) == planted
        assert planted.limiter == verdict.SEND_BUFFER
        assert planted.spec.lane.rtt_ns >= 150 * MS
        assert planted.spec.path.bdp_bytes > planted.spec.profile.tcp_rmem[2]


def test_following_advice_changes_the_one_setting_that_it_names() -> None:
    planted = draw(7, list(PLANTS).index(verdict.RECEIVE_WINDOW))
    spec, _ = as_advised(planted, "tcp_rmem max", "3 MiB")
    assert spec.profile == replace(planted.spec.profile, tcp_rmem=(*spec.profile.tcp_rmem[:2], 3 * 2**20))
    assert as_advised(planted, "window", "2 MiB")[0].profile.window == 2 * 2**20
    assert as_advised(planted, "congestion control", "bbr")[0] == replace(planted.spec, congestion_control="bbr")
    assert as_advised(planted, "streams", "4")[0] == replace(planted.spec, streams=4)
    assert as_advised(planted, "duration", "33 s")[0] == replace(planted.spec, duration_s=33)
    small = draw(7, list(PLANTS).index(BUFFER))
    assert as_advised(small, "the lane's buffer", "1536 KiB")[0].path.buffer_bytes == 3 * 2**19
    short = draw(7, list(PLANTS).index(MEMORY))
    spec, spoil = as_advised(short, "tcp_mem", "24576 pages")
    assert (spec.profile.tcp_mem, spoil) == ((24576,) * 3, None)
    with pytest.raises(ValueError, match="no setting that a trial can follow"):
        as_advised(planted, "a faster moon", "1")


def test_the_table_counts_misses_and_predictions_that_did_not_hold() -> None:
    kept, broken = Followed(100.0, 91.0, verdict.LINE), Followed(100.0, 89.0, verdict.LINE)
    right = Trial(0, "one", MEMORY, MEMORY, "TCP ran short", "tcp_mem from", followed=kept)
    lines = Outcome(
        (
            right,
            dataclasses.replace(right, number=1, followed=broken),
            Trial(2, "two", verdict.LINE, verdict.UNKNOWN, "no window"),
            Trial(3, "three", verdict.LINE, failure="no result"),
        )
    ).lines()
    assert lines[:5] == [
        "planted             |   a   b   c   d | advice holds",
        "line              a |   .   .   1   1 | -",
        "emulator (memory) b |   .   2   .   . | 1 of 2",
        "unknown           c |   .   .   .   . | -",
        "not measured      d |   .   .   .   . | -",
    ]
    assert lines[5:7] == [
        "2 of 4 verdicts are right: 50.0%",
        "1 of 2 predictions hold within 10% when the advice is followed",
    ]
    assert lines[7].startswith("miss: 2 two: planted line, found unknown; no window")
    assert lines[8].startswith("miss: 3 three: planted line, found not measured; no result")
    assert lines[9].endswith("followed: 0.89 of that, then line")
