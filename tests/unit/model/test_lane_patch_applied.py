"""A change touches what it names and nothing else."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from emulator.config import lane_patch
from emulator.model.flow_match import Match
from emulator.model.impairment import Buffer, Impairment
from emulator.model.lane_patch import LanePatch, difference
from emulator.model.topology import Flow, Lane

MS = 10**6
LANE = Lane(
    "japan",
    outbound=Impairment(180 * MS, MS, 7, 10**9, Buffer(bytes=4096)),
    inbound=Impairment(166 * MS, 2 * MS, 8, 10**10, Buffer(packets=9)),
    mtu=9000,
)


def test_no_change_at_all() -> None:
    assert LanePatch().apply(LANE) == LANE


def test_an_rtt_alone_splits_evenly_and_keeps_the_rest() -> None:
    assert LanePatch(75_000_001).apply(LANE) == LANE.with_rtt(75_000_001)


def test_one_delay_keeps_the_other() -> None:
    changed = LanePatch(outbound={"delay_ns": 5 * MS}).apply(LANE)
    assert (changed.outbound.delay_ns, changed.inbound.delay_ns) == (5 * MS, 166 * MS)
    assert changed.inbound == LANE.inbound


def test_rtt_and_one_delay_give_the_other() -> None:
    changed = LanePatch(100 * MS, inbound={"delay_ns": 30 * MS}).apply(LANE)
    assert (changed.outbound.delay_ns, changed.inbound.delay_ns) == (70 * MS, 30 * MS)


def test_a_direction_is_meant_alone() -> None:
    changed = LanePatch(inbound={"loss_p32": 99, "rate_bps": 800, "jitter_ns": 0}).apply(LANE)
    assert changed.outbound == LANE.outbound
    assert changed.inbound == Impairment(166 * MS, 0, 99, 800, Buffer(packets=9))


def test_bottleneck_gone_and_buffer_automatic() -> None:
    changed = LanePatch.both({"rate_bps": None, "buffer": None}).apply(LANE)
    assert changed.outbound == Impairment(180 * MS, MS, 7)
    assert LanePatch.both({"buffer": Buffer(ns=5)}).apply(LANE).inbound.buffer == Buffer(ns=5)


def test_off_keeps_what_was_asked_without_effect_and_on_brings_it_back() -> None:
    off = LanePatch(off=True).apply(LANE)
    assert off == replace(LANE, off=True)
    assert off.in_effect.outbound == Impairment(rate_bps=10**9, buffer=Buffer(bytes=4096))
    assert LanePatch(off=False).apply(off) == LANE == LANE.in_effect


def test_a_delay_puts_a_lane_into_effect_and_a_loss_does_not() -> None:
    off = replace(LANE, off=True)
    assert not LanePatch(80 * MS).apply(off).off
    assert not LanePatch(inbound={"delay_ns": 80 * MS}).apply(off).off
    assert LanePatch.both({"loss_p32": 1}).apply(off).off


VOICE = Flow("voice", Match(dscp=46), Impairment(50 * MS, MS, 7), Impairment(50 * MS))
BULK = Flow("bulk", Match(port=9))
TALKING = replace(LANE, flows=(VOICE, BULK), off=True)


def of_flow(name: str, patch: LanePatch | None) -> LanePatch:
    """A patch of that flow alone."""
    return LanePatch(flows={name: patch})


def test_a_flow_is_meant_alone() -> None:
    changed = of_flow("voice", LanePatch(8 * MS, {"jitter_ns": 0, "loss_p32": 5})).apply(TALKING)
    voice = replace(VOICE, outbound=Impairment(4 * MS, 0, 5), inbound=Impairment(4 * MS))
    assert changed == replace(TALKING, flows=(voice, BULK))
    slow = LanePatch(outbound={"rate_bps": 800}, inbound={"rate_bps": 800}, match={"port": 10})
    assert of_flow("bulk", slow).apply(TALKING).flows == (
        VOICE,
        Flow("bulk", Match(port=10), Impairment(rate_bps=800), Impairment(rate_bps=800)),
    )


def test_a_new_flow_is_the_last_and_has_the_lanes_delays_and_nothing_else_of_it() -> None:
    changed = of_flow("new", replace(LanePatch.both({"loss_p32": 5}), match={"vlan": 7})).apply(TALKING)
    new = Flow("new", Match(vlan=7), Impairment(180 * MS, loss_p32=5), Impairment(166 * MS, loss_p32=5))
    assert changed == replace(TALKING, flows=(VOICE, BULK, new))


def test_a_flow_without_its_own_delay_has_the_one_that_its_lane_gets_with_the_same_patch() -> None:
    new, none = LanePatch(match={"vlan": 7}), LanePatch.both({"delay_ns": None})
    changed = LanePatch(20 * MS, flows={"voice": none, "new": new}).apply(TALKING)
    voice = replace(VOICE, outbound=Impairment(10 * MS, MS, 7), inbound=Impairment(10 * MS))
    assert changed.flows == (voice, BULK, Flow("new", Match(vlan=7), Impairment(10 * MS), Impairment(10 * MS)))
    apart = LanePatch(inbound={"delay_ns": 8 * MS}, flows={"new": new}).apply(TALKING)
    assert apart.flows[2] == Flow("new", Match(vlan=7), Impairment(180 * MS), Impairment(8 * MS))


def test_a_flow_is_deleted() -> None:
    assert of_flow("voice", None).apply(TALKING) == replace(TALKING, flows=(BULK,))
    assert LanePatch(flows=None).apply(TALKING) == replace(TALKING, flows=())


NEW = {"vlan": 7}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (of_flow("new", LanePatch(8)), "there is no flow 'new', nor any other; a new flow needs a match"),
        (
            of_flow("new", LanePatch(outbound={"jitter_ns": 10**9}, match=NEW)),
            "flow new: jitter 1 s exceeds the one-way delay of 180 ms",
        ),
        (LanePatch(MS), "jitter 1 ms exceeds the one-way delay of 500 us"),
        (LanePatch.both({"rate_bps": None}), "a buffer needs a rate: without a bottleneck there is no queue"),
        (LanePatch(MS, {"delay_ns": 2 * MS}), "one direction's delay is above the RTT of 1 ms: use a smaller delay"),
        (
            LanePatch(9 * MS, {"delay_ns": 5 * MS}, {"delay_ns": 5 * MS}),
            "the delays add up to 10 ms, but rtt is 9 ms: remove one of the three",
        ),
    ],
)
def test_contradictions(patch: LanePatch, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        patch.apply(LANE)
    assert str(refusal.value) == message


def test_a_field_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="no such field: lag_ns"):
        LanePatch(outbound={"lag_ns": 1})


ENDS = (LANE, TALKING, replace(LANE, off=True), Lane("japan", flows=(VOICE,), mtu=9000), Lane("japan", mtu=9000))


@pytest.mark.parametrize("before", ENDS)
@pytest.mark.parametrize("after", ENDS)
def test_a_difference_makes_one_lane_the_other_and_survives_a_request(before: Lane, after: Lane) -> None:
    patch = difference(before, after)
    assert patch.apply(before) == after
    sent = json.loads(json.dumps(lane_patch.tree(patch)))
    assert lane_patch.parse("japan", sent).apply(before) == after
