"""A change touches what it names and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.change import Change
from emulator.model import Buffer, Impairment, Lane

MS = 10**6
LANE = Lane(
    "japan",
    outbound=Impairment(180 * MS, MS, 7, 10**9, Buffer(bytes=4096)),
    inbound=Impairment(166 * MS, 2 * MS, 8, 10**10, Buffer(packets=9)),
    mtu=9000,
)


def test_no_change_at_all() -> None:
    assert Change().apply(LANE) == LANE


def test_an_rtt_alone_splits_evenly_and_keeps_the_rest() -> None:
    assert Change(rtt_ns=75_000_001).apply(LANE) == LANE.with_rtt(75_000_001)


def test_one_delay_keeps_the_other() -> None:
    changed = Change(outbound_delay_ns=5 * MS).apply(LANE)
    assert (changed.outbound.delay_ns, changed.inbound.delay_ns) == (5 * MS, 166 * MS)
    assert changed.inbound == LANE.inbound


def test_rtt_and_one_delay_give_the_other() -> None:
    changed = Change(rtt_ns=100 * MS, inbound_delay_ns=30 * MS).apply(LANE)
    assert (changed.outbound.delay_ns, changed.inbound.delay_ns) == (70 * MS, 30 * MS)


def test_a_direction_is_meant_alone() -> None:
    changed = Change(loss_p32=99, rate_bps=8, jitter_ns=0, outbound=False).apply(LANE)
    assert changed.outbound == LANE.outbound
    assert changed.inbound == Impairment(166 * MS, 0, 99, 8, Buffer(packets=9))


def test_bottleneck_gone_and_buffer_automatic() -> None:
    changed = Change(rate_bps=0, buffer={}).apply(LANE)
    assert changed.outbound == Impairment(180 * MS, MS, 7)
    assert Change(buffer={"ns": 5}).apply(LANE).inbound.buffer == Buffer(ns=5)


def test_off_keeps_what_was_asked_without_effect_and_on_brings_it_back() -> None:
    off = Change(off=True).apply(LANE)
    assert off == replace(LANE, off=True)
    assert off.in_effect.outbound == Impairment(rate_bps=10**9, buffer=Buffer(bytes=4096))
    assert Change(off=False).apply(off) == LANE == LANE.in_effect


def test_a_delay_puts_a_lane_into_effect_and_a_loss_does_not() -> None:
    off = replace(LANE, off=True)
    assert not Change(rtt_ns=80 * MS).apply(off).off
    assert not Change(inbound_delay_ns=80 * MS).apply(off).off
    assert Change(loss_p32=1).apply(off).off


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(rtt_ns=MS), "jitter 1 ms exceeds the one-way delay of 500 us"),
        (Change(rate_bps=0), "a buffer needs a rate: without a bottleneck no queue builds up"),
        (Change(rtt_ns=MS, outbound_delay_ns=2 * MS), "one direction's delay is above the RTT of 1 ms"),
        (
            Change(rtt_ns=9 * MS, outbound_delay_ns=5 * MS, inbound_delay_ns=5 * MS),
            "the delays add up to 10 ms, but rtt says 9 ms: leave one of them out",
        ),
    ],
)
def test_contradictions(change: Change, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        change.apply(LANE)
    assert str(refusal.value) == message
