"""A change touches what it names and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulator.config.lane_change import Change, OfFlow
from emulator.model.flow_match import Match
from emulator.model.impairment import Buffer, Impairment
from emulator.model.topology import Flow, Lane

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


VOICE = Flow("voice", Match(dscp=46), Impairment(50 * MS, MS, 7), Impairment(50 * MS))
BULK = Flow("bulk", Match(port=9))
TALKING = replace(LANE, flows=(VOICE, BULK), off=True)


def test_a_flow_is_meant_alone() -> None:
    changed = Change(rtt_ns=8 * MS, jitter_ns=0, loss_p32=5, inbound=False, flow=OfFlow("voice")).apply(TALKING)
    voice = replace(VOICE, outbound=Impairment(4 * MS, 0, 5), inbound=Impairment(4 * MS))
    assert changed == replace(TALKING, flows=(voice, BULK))
    assert Change(rate_bps=8, flow=OfFlow("bulk", Match(port=10))).apply(TALKING).flows == (
        VOICE,
        Flow("bulk", Match(port=10), Impairment(rate_bps=8), Impairment(rate_bps=8)),
    )


def test_a_new_flow_is_the_last_and_has_the_lanes_delays_and_nothing_else_of_it() -> None:
    changed = Change(loss_p32=5, flow=OfFlow("new", Match(vlan=7))).apply(TALKING)
    new = Flow("new", Match(vlan=7), Impairment(180 * MS, loss_p32=5), Impairment(166 * MS, loss_p32=5))
    assert changed == replace(TALKING, flows=(VOICE, BULK, new))


def test_a_flow_is_taken_away() -> None:
    assert Change(flow=OfFlow("voice", away=True)).apply(TALKING) == replace(TALKING, flows=(BULK,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            Change(loss_p32=1, flow=OfFlow("new")),
            "there is no flow new: none are there; a new one needs a match",
        ),
        (
            Change(flow=OfFlow("new", Match(vlan=7), away=True)),
            "there is no flow new: none are there; a new one needs a match",
        ),
        (
            Change(jitter_ns=10**9, flow=OfFlow("new", Match(vlan=7))),
            "flow new: jitter 1 s exceeds the one-way delay of 180 ms",
        ),
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
