"""The law of a program: planted costs are found, intervals hold them, and a law that does not hold is refused."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.analysis import program_law
from emulator.analysis.program_law import LawPoint, NoLaw, ProgramLaw, fit, leave_one_out, sentence, widest
from emulator.analysis.tcp_path import NS

MS, GBIT, MIB = 10**6, 10**9, 2**20
RTTS_MS = (0, 10, 80, 200, 346)


def planted(
    trips: float,
    own_s: float,
    *,
    rtts_ms: Sequence[int] = RTTS_MS,
    rates_bps: Sequence[int] = (GBIT,),
    size: int | None = None,
    noise: Callable[[], float] = lambda: 0.0,
    runs: int = 3,
) -> list[LawPoint]:
    """Cells whose times are the law's, with noise on each run."""
    points = []
    for rtt_ms in rtts_ms:
        for rate in rates_bps:
            exact = own_s + trips * rtt_ms / 1000 + program_law.line_s(size, rate, 1500)
            points.append(LawPoint(rtt_ms * MS, rate, size, tuple(exact + noise() for _ in range(runs))))
    return points


def law_of(points: Sequence[LawPoint]) -> ProgramLaw:
    law = fit(points)
    assert isinstance(law, ProgramLaw)
    return law


def timed(times_s: dict[int, float], size: int | None = None, retransmits: int = 0) -> list[LawPoint]:
    """Cells of one run each, by RTT in ms."""
    return [LawPoint(rtt * MS, GBIT, size, (time,), retransmits=retransmits) for rtt, time in times_s.items()]


@given(
    trips=st.floats(0, 5_000),
    own_s=st.floats(0, 100),
    size=st.none() | st.integers(1, 2**34),
    rtts=st.sets(st.integers(0, 2_000), min_size=2, max_size=8),
    rates=st.sets(st.sampled_from([10**7, 10**9, 10**10]), min_size=1),
)
def test_a_planted_law_is_found(trips: float, own_s: float, size: int | None, rtts: set[int], rates: set[int]) -> None:
    law = law_of(planted(trips, own_s, rtts_ms=sorted(rtts), rates_bps=sorted(rates), size=size))
    assert law.objection == ""
    assert law.round_trips == pytest.approx(trips, abs=1e-5)
    assert law.own_s == pytest.approx(own_s, abs=1e-5)
    assert not law.hidden_line
    assert law.predict(346 * MS, GBIT, size).completion_s == pytest.approx(
        own_s + 0.346 * trips + program_law.line_s(size, GBIT, 1500), rel=1e-6, abs=1e-5
    )


def test_intervals_hold_the_truth_in_99_of_100_grids() -> None:
    rng = random.Random(18)
    trips_missed = own_missed = next_missed = 0
    grids = 2_000
    for _ in range(grids):
        noise = lambda: rng.gauss(0, 0.01)  # noqa: E731
        law = law_of(planted(18.2, 0.41, noise=noise, rates_bps=(GBIT, 10**8), size=4 * MIB))
        trips_missed += abs(law.round_trips - 18.2) > law.round_trips_half
        own_missed += abs(law.own_s - 0.41) > law.own_half_s
        new = planted(18.2, 0.41, rtts_ms=(130,), rates_bps=(GBIT, 10**8), size=4 * MIB, noise=noise)
        said, mean = law.predict(130 * MS, GBIT, 4 * MIB), sum(one.mean_s - one.line_s for one in new) / 2
        next_missed += abs(said.completion_s - law.points[0].line_s - mean) > said.half_s
    for missed in (trips_missed, own_missed, next_missed):
        # 1 % of 2000 are 20, with a standard deviation of 4.4.
        assert 5 <= missed <= 36


def test_repeats_that_are_equal_do_not_make_the_law_certain() -> None:
    """What the line misses is the same in each repeat: three runs or thirty give the same interval."""
    bent = {10: 0.1, 80: 0.81, 346: 3.46}
    few = law_of([LawPoint(one.rtt_ns, GBIT, None, one.completion_s * 3) for one in timed(bent)])
    many = law_of([LawPoint(one.rtt_ns, GBIT, None, one.completion_s * 30) for one in timed(bent)])
    assert few.round_trips_half == pytest.approx(many.round_trips_half)
    assert few.round_trips_half > 0.1


def test_rates_at_one_rtt_count_as_one() -> None:
    """Their residuals are alike: the interval of twelve rates is that of one."""
    bent = timed({10: 0.1, 80: 0.81, 346: 3.46})
    rates = [LawPoint(one.rtt_ns, 10**9 + n, None, one.completion_s) for one in bent for n in range(12)]
    assert law_of(rates).round_trips_half == pytest.approx(law_of(bent).round_trips_half)


def test_two_rtts_give_an_exact_line_without_interval() -> None:
    law = law_of(planted(8, 0.002, rtts_ms=(10, 80)))
    assert (round(law.round_trips, 9), round(law.own_s, 9)) == (8, 0.002)
    assert law.round_trips_half == law.own_half_s == law.predict(346 * MS, GBIT, None).half_s == math.inf
    assert sentence(law) == "this program costs 8 round trips and 2 ms; two RTTs give no interval"


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ([], "no cell is valid: a law needs two RTTs, and three for intervals"),
        (planted(8, 0, rtts_ms=(10,)), "only 10 ms has a valid cell: a law needs two RTTs, and three for intervals"),
    ],
)
def test_fewer_rtts_give_none(points: list[LawPoint], reason: str) -> None:
    assert fit(points) == widest(points) == NoLaw(reason)
    assert sentence(fit(points)) == f"no law: {reason}"
    assert leave_one_out(points) == ()


def test_the_sentence_predicts_the_longest_rtt_from_the_others() -> None:
    rng = random.Random(3)
    law = law_of(planted(18.2, 0.41, size=64 * MIB, noise=lambda: rng.gauss(0, 0.004)))
    assert sentence(law, law.points) == (
        "this program costs 18.20 ± 0.04 round trips and 412 ± 6 ms, and its bytes at the line's rate; "
        "without 346 ms in the fit: 7.27 s there (measured 7.27 s); worst residual 0.1% at 0 ms"
    )


def test_leaving_one_out_predicts_what_was_measured() -> None:
    points = planted(8, 0.001, rtts_ms=(10, 80, 346), rates_bps=(GBIT, 10**8), size=MIB)
    left = leave_one_out(points)
    assert [one.point for one in left] == points
    assert all(abs(one.error) < 1e-9 for one in left)
    assert [one.forecast.beyond for one in left] == [True, True, False, False, True, True]
    assert all(one.forecast.half_s == math.inf for one in left), "two RTTs are left: a line without interval"
    wrong = [LawPoint(346 * MS, GBIT, MIB, (3.0,)), *points[:2], *points[2:4]]
    assert leave_one_out(wrong)[-1].error == pytest.approx(-0.0741, abs=0.001)


def test_bytes_that_a_window_makes_wait_have_no_time_of_their_own() -> None:
    """64 MiB in windows of 2 MiB: 32 round trips, at 1 and at 10 Gbit/s alike."""
    points = [
        LawPoint(rtt * MS, rate, 64 * MIB, (34 * rtt / 1000,)) for rtt in (80, 200, 346) for rate in (GBIT, 10**10)
    ]
    law = law_of(points)
    assert law.hidden_line
    assert (round(law.round_trips, 6), law.objection) == (34, "")
    assert law.predict(100 * MS, 10**11, 64 * MIB).completion_s == pytest.approx(3.4)
    assert "its bytes take no time of their own, they wait for round trips" in sentence(law)


def slow_start_s(rtt_s: float, size: int = 64 * MIB, rate_bytes: float = 1.2e8) -> float:
    """A transfer that starts with 14480 bytes and doubles each round trip up to the line's rate."""
    window, sent, time = 14480.0, 0.0, 2 * rtt_s
    while sent < size and window < rate_bytes * rtt_s:
        sent, window, time = sent + window, 2 * window, time + rtt_s
    return time + max(0.0, size - sent) / rate_bytes


def test_a_line_that_bends_is_no_law() -> None:
    """A window limits only where it holds less than rate x RTT."""
    bent = timed({rtt: max(0.6, 30 * rtt / 1000) for rtt in (0, 2, 5, 10, 40, 80)}, size=64 * MIB)
    whole = fit(bent)
    assert isinstance(whole, ProgramLaw)
    assert "it bends up, because slow start or a window limits the bytes at long RTTs only" in whole.objection
    assert sentence(whole).startswith("no law: ")
    part = widest([*bent, *timed({346: 30 * 0.346}, size=64 * MIB)])
    assert isinstance(part, ProgramLaw)
    assert part.round_trips == pytest.approx(30, abs=0.5)


def test_a_part_that_is_a_line_is_found_and_named() -> None:
    points = timed({rtt: max(0.6, 30 * rtt / 1000) for rtt in (0, 1, 2, 4, 40, 80, 200, 346)}, size=64 * MIB)
    law = widest(points)
    assert isinstance(law, ProgramLaw)
    assert law.rtts_ns == (40 * MS, 80 * MS, 200 * MS, 346 * MS)
    assert law.hidden_line
    begin = "from 40 ms to 346 ms (no line holds for all RTTs) this program costs 30.000 ± 0.001 round trips and "
    assert sentence(law, points).startswith(begin)


def test_nothing_holds_for_times_without_order() -> None:
    law = widest(timed({0: 3.0, 10: 0.2, 80: 4.0, 200: 0.1, 346: 3.0}))
    assert isinstance(law, NoLaw)
    assert law.reason.startswith("a line says ")


def test_a_large_transfer_in_slow_start_is_a_line_only_where_the_law_says_so() -> None:
    points = timed({rtt: slow_start_s(rtt / 1000) for rtt in (0, 1, 10, 80, 200, 346)}, size=64 * MIB)
    law = widest(points)
    if isinstance(law, ProgramLaw):
        for point in law.points:
            assert law.completion_s(point) == pytest.approx(point.mean_s, rel=program_law.HOLDS_SHARE, abs=0.001)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({0: 1.0, 80: 1.0, 346: 2.9}, "it bends up, because slow start or a window"),
        ({0: 0.1, 80: 1.9, 346: 2.9}, "it bends down, because a timer or work of the program"),
        ({10: 2.0, 80: 1.6, 346: 0.1}, "the time falls while the RTT rises"),
        ({80: 0.1, 200: 1.0, 346: 2.1}, "less than nothing"),
    ],
)
def test_why_a_law_does_not_hold(times: dict[int, float], words: str) -> None:
    assert words in law_of(timed(times)).objection


def test_loss_is_named_where_segments_were_sent_again() -> None:
    said = law_of(timed({0: 1.0, 80: 1.0, 346: 2.9}, retransmits=4)).objection
    assert said.endswith("segments were sent again, and how many round trips a loss costs is chance")


@pytest.mark.parametrize(("measured_s", "holds"), [(0.0009, True), (0.003, False)])
def test_a_millisecond_is_no_misfit(measured_s: float, holds: bool) -> None:
    """At RTT 0 every program takes next to nothing, so a share of it says nothing."""
    points = timed({0: measured_s, 80: 0.64, 200: 1.6, 346: 2.768})
    assert (law_of(points).objection == "") is holds


def test_a_program_that_waits_for_nobody_costs_no_round_trips() -> None:
    law = law_of(timed({0: 5.0, 10: 5.0, 346: 5.0}))
    assert (law.objection, law.r_squared) == ("", 1.0)
    assert sentence(law).startswith("this program costs 0.000 ± 0.001 round trips and 5.000 ± 0.001 s; ")


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (18.2345, 0.1, "18.2 ± 0.1"),
        (18.2345, 0.101, "18.2 ± 0.2"),
        (18.2345, 2.4, "18 ± 3"),
        (18.2345, 140, "18 ± 140"),
        (18.2346, 0.0, "18.235 ± 0.001"),
        (-0.00001, 0.0, "0.000 ± 0.001"),
        (1234.5, math.inf, "1234"),
        (0.41, math.inf, "0.41"),
    ],
)
def test_digits_are_those_that_the_interval_leaves(value: float, half: float, text: str) -> None:
    assert program_law.with_interval(value, half) == text


def test_times_in_ms_below_a_second() -> None:
    assert program_law.seconds_text(0.0816) == "81.6 ms"
    assert program_law.seconds_text(6.712) == "6.71 s"
    assert program_law.seconds_text(0.41, 0.02) == "410 ± 20 ms"
    assert program_law.seconds_text(0.41, 3.0) == "0 ± 3 s"
    assert program_law.seconds_text(NS / NS, 0.25) == "1.0 ± 0.3 s"
