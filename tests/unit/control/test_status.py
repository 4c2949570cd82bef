"""Whose fault a drop is: netem has one counter for its limit and for random loss, also for loss of the past."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.clocked_appliance import MS, Machine
from support.hand_clock import HandAlarm

from emulator.config import loader
from emulator.control.intent_store import IntentStore
from emulator.control.schedule_player import Player
from emulator.control.status import DirectionCounters, Dropped, Status
from emulator.control.status_document import document, from_document
from emulator.kernel.protocol import QueueCounters
from emulator.model.impairment import Impairment
from emulator.model.lane_patch import LanePatch
from emulator.model.loss_model import P32
from emulator.model.timeline import Timeline
from emulator.model.topology import Lane, Topology
from emulator.plan.qdisc_ops import SetNetem
from emulator.plan.qdisc_values import Netem

LANE = Lane("japan", Impairment(7 * MS), Impairment(5 * MS))
STAR = Topology("star", "hub", (LANE, Lane("london", Impairment(8 * MS))))
LOSSY = LanePatch(outbound={"loss_p32": P32 // 20}).apply(LANE)
PORT = "lhs-japan"
DROPPED = QueueCounters(300, 30_000, 14, 0, 0, 0)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which the star is up, and netem on the port counts 14 drops."""
    one = Machine(tmp_path)
    counters = one.kernel.counters
    monkeypatch.setattr(one.kernel, "counters", lambda: counters() | {PORT: DROPPED})
    one.appliance().up(STAR)
    return one


def drops(machine: Machine) -> tuple[int | None, int | None]:
    """By limit and by loss, outbound, as a process tells that starts now; nothing may be drift."""
    status = machine.appliance().status()
    assert not status.drift
    counters = status.lane("japan").outbound.counters
    return counters.drops_limit, counters.drops_loss


def test_without_loss_all_drops_are_by_limit(machine: Machine) -> None:
    assert drops(machine) == (14, 0)


def test_earlier_loss_is_not_blamed_on_the_limit(machine: Machine) -> None:
    machine.appliance().set_lane(LOSSY)
    machine.appliance().set_lane(LANE)
    assert drops(machine) == (None, None)
    machine.appliance().set_lane(LANE.with_rtt(40 * MS))
    machine.appliance().set_lane(LANE.with_rtt(4 * MS))
    assert drops(machine) == (None, None), "a further change, also to a smaller limit, forgets nothing"
    inbound = machine.appliance().status().lane("japan").inbound.counters
    assert (inbound.drops_limit, inbound.drops_loss) == (0, 0), "the other direction never lost a packet"
    assert not any("loss_corr" in change.summary for change in machine.appliance().history())


def test_undo_and_an_expired_change_forget_no_loss(machine: Machine) -> None:
    machine.appliance().set_lane(LOSSY)
    machine.appliance().undo()
    assert drops(machine) == (None, None)
    machine.appliance().down()
    machine.appliance().up(STAR)
    assert drops(machine) == (14, 0), "the queues are new"
    machine.appliance().set_lane(LOSSY, confirm_s=60)
    machine.clock.pass_s(60)
    assert machine.appliance().expire()
    assert drops(machine) == (None, None)


def test_loss_that_somebody_else_set_is_remembered_when_it_is_repaired(machine: Machine) -> None:
    egress = machine.kernel.ports[PORT].egress
    assert egress
    machine.kernel.apply(SetNetem(PORT, replace(egress.netem, loss_p32=P32 // 2)))
    assert machine.appliance().repair(restore=True).repaired
    assert drops(machine) == (None, None)


def test_a_schedule_forgets_no_loss_before_it_and_leaves_its_own(machine: Machine) -> None:
    keys = "{at: 1s, loss: 5%}, {at: 2s, loss: 0%}, {at: 3s, delay: 60ms}"
    played = loader.loads(
        "{name: star, hub: hub, lanes: {japan: {outbound: {delay: 7ms}, inbound: {delay: 5ms}}, london: {rtt: 8ms}},"
        f" schedule: {{tracks: [{{lanes: [japan], direction: outbound, keys: [{keys}]}}]}}}}"
    )
    machine.appliance().up(played)
    now = IntentStore(machine.folder).read()
    assert now.topology and now.topology.schedule and now.began_ns is not None
    timeline, alarm = Timeline(now.topology, now.topology.schedule), HandAlarm(machine.clock, 0)
    player = Player(machine.kernel, timeline, now.began_ns, alarm)
    assert drops(machine) == (14, 0)
    for known in ((None, None), (None, None), (None, None)):
        assert player.play()
        assert drops(machine) == known
    machine.appliance().up(played, anew=True)
    now = IntentStore(machine.folder).read()
    assert now.began_ns is not None
    Player(machine.kernel, timeline, now.began_ns, alarm).read_back()
    assert drops(machine) == (None, None), "another player takes the memory from the kernel"
    machine.appliance().up(STAR)
    assert drops(machine) == (None, None)


def test_what_grows_after_the_loss_is_by_limit() -> None:
    first = DirectionCounters(100, 9, 0, 0, 9, None, 3, None, 14)
    later = replace(first, drops_buffer=4, drops_since_loss=16)
    assert later.dropped_since(first) == Dropped(2, 1, 0)
    assert later.dropped_since(replace(first, drops_since_loss=None)) == Dropped(None, 1, None)
    assert DirectionCounters(drops_limit=3).dropped_since(DirectionCounters(drops_limit=1)) == Dropped(2, 0, 0)


def test_the_status_document_tells_it(machine: Machine) -> None:
    machine.appliance().set_lane(LOSSY)
    machine.appliance().set_lane(LANE)
    status: Status = machine.appliance().status()
    told = document(status)
    assert told["lanes"][0]["outbound"]["drops_since_loss"] == 14
    assert from_document(told, status.topology).lane("japan").outbound == status.lane("japan").outbound
    del told["lanes"][0]["outbound"]["drops_since_loss"]
    assert from_document(told, status.topology).lane("japan").outbound.counters.drops_since_loss is None


def test_the_memory_of_loss_is_no_difference_but_a_correlation_is() -> None:
    lossless, lossy = Netem(), Netem(loss_p32=1)
    assert lossless.remembering(lossy) == lossless
    assert lossless.remembering(lossy).lost_before
    assert lossless.remembering(lossless.remembering(lossy)).lost_before
    assert not lossy.remembering(lossless.remembering(lossy)).loss_corr
    assert lossy != replace(lossy, loss_corr=1)
    assert hash(lossless) == hash(lossless.remembering(lossy))
