"""Round trips over time, in steps."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from emulator.record.probes import SOMEWHERE, RecordedProbe
from emulator.record.rtt_curve import STEPS, CurveStep, RttCurve, curve_of

MS = 10**6


def series(answers: list[bool], every_ns: int, run: int = 0, begin_ns: int = 0) -> list[RecordedProbe]:
    """Probes at even intervals, of which some were answered after a time of their own; the last always was."""
    return [
        RecordedProbe(run, number, begin_ns + number * every_ns, (80 + number % 7) * MS)
        for number, answered in enumerate([*answers, True])
        if answered
    ]


@given(st.lists(st.booleans(), max_size=400), st.integers(1, 10**9))
def test_every_probe_is_in_one_step(answers: list[bool], every_ns: int) -> None:
    sent = series(answers, every_ns)
    curve = curve_of(sent, every_ns)
    assert len(curve.steps) <= STEPS
    assert sum(step.lost for step in curve.steps) == answers.count(False)
    known = [step for step in curve.steps if step.least_ns is not None]
    assert min(step.least_ns or 0 for step in known) == min(probe.rtt_ns or 0 for probe in sent)
    assert max(step.most_ns or 0 for step in known) == max(probe.rtt_ns or 0 for probe in sent)


@given(st.lists(st.booleans(), max_size=400))
def test_a_curve_that_grows_is_at_last_that_of_the_whole(answers: list[bool]) -> None:
    sent, every_ns = series(answers, 20 * MS), 20 * MS
    growing = RttCurve((len(answers) + 1) * every_ns, every_ns)
    for probe in sent:
        growing.add(probe)
    whole = curve_of(sent, every_ns)
    assert [(step.least_ns, step.most_ns) for step in growing.steps] == [
        (step.least_ns, step.most_ns) for step in whole.steps
    ]
    assert sum(step.lost for step in growing.steps) == sum(step.lost for step in whole.steps)


def test_a_series_begins_to_count_anew() -> None:
    first, second = series([True] * 5, MS), series([True] * 5, MS, run=1, begin_ns=6 * MS)
    curve = RttCurve(12 * MS, MS)
    for probe in first + second:
        curve.add(probe)
    assert [step.lost for step in curve.steps] == [0] * 12


def test_answers_in_another_order_are_not_lost() -> None:
    sent = series([True] * 50, MS)
    random.Random(7).shuffle(sent)
    curve = RttCurve(51 * MS, 51 * MS)
    for probe in sent:
        curve.add(probe)
    assert curve.steps == [CurveStep(80 * MS, 86 * MS, 0)]


def test_what_is_sent_after_the_end_belongs_to_the_last_step() -> None:
    curve = RttCurve(STEPS * MS, MS)
    curve.add(RecordedProbe(0, 0, 0, 80 * MS))
    curve.add(RecordedProbe(1, 0, 10**12, lost=SOMEWHERE))
    assert (len(curve.steps), curve.steps[0], curve.steps[-1]) == (
        STEPS,
        CurveStep(80 * MS, 80 * MS),
        CurveStep(lost=1),
    )
