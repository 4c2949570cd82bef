"""What is seen of the lanes second by second, and how it is passed on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.waiting import PATIENCE_S
from support.web_daemon import House, asked

from emulator.control.appliance import Appliance
from emulator.control.rtt_monitor import Echoes, Rtts
from emulator.errors import MissingError
from emulator.kernel.protocol import QueueCounters
from emulator.model.topology import Lane, Topology
from emulator.plan.qdisc_ops import DelEgress
from web import live


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon with the founding star up."""
    made = House(tmp_path)
    made.up()
    return made


def read(chunk: bytes) -> tuple[str, Any]:
    """An event's kind and its data."""
    fields = dict(line.split(": ", 1) for line in chunk.decode().strip().splitlines())
    return fields["event"], json.loads(fields["data"])


def test_a_look_has_rates_and_round_trips(house: House) -> None:
    house.live.look()
    house.kernel.counted["lhs-japan"] = QueueCounters(100, 250_000, 5, 4, 6000, 3)
    house.tick(2)
    japan = house.live.look().lanes["japan"]
    assert (japan.asked_ns, japan.min_ns, japan.median_ns, japan.p99_ns) == (346e6, 32e6, 32.4e6, 32.9e6)
    out = japan.outbound
    assert (out.rate_bps, out.packets_per_s, out.queued_packets, out.drops_limit_per_s, out.drops_buffer_per_s) == (
        1_000_000, 50, 4, 1.0, 1.5,
    )  # fmt: skip
    assert japan.inbound.rate_bps == 0


def test_the_last_round_trips_of_all_lanes_come_in_one_answer(house: House) -> None:
    for off in (False, True, True):
        house.client.patch("/api/lanes/london", json={"disabled": off})
        house.tick()
        house.live.look()
    past = house.client.get("/api/past?seconds=2").json
    assert len(past["at_ms"]) == 2
    assert past["lanes"]["london"] == {"asked_ns": [0, 0], "median_ns": [32_400_000] * 2}
    assert past["lanes"]["japan"]["asked_ns"] == [346_000_000] * 2
    assert list(house.client.get("/api/past").json["lanes"]) == ["california", "london", "japan"]
    house.client.delete("/api/topology")
    assert house.client.get("/api/past").json["lanes"] == {}


def test_how_late_the_engine_sent_is_the_worst_direction_since_the_look_before(house: House) -> None:
    assert house.live.look().late_ns is None
    for port, count in (("lhs-japan", 5), ("lhh-london", 100)):
        house.kernel.counted[port] = QueueCounters(0, 0, 0, 0, 0, 0, lateness=((20_000, count), (90_000, 5)))
    house.tick()
    assert house.live.look().late_ns == 90_000
    house.kernel.counted["lhh-london"] = QueueCounters(0, 0, 0, 0, 0, 0, lateness=((20_000, 300), (90_000, 5)))
    house.tick()
    assert house.live.look().late_ns == 20_000
    house.tick()
    assert house.live.look().late_ns is None


def test_rates_are_over_the_time_between_the_readings_of_the_counters(house: House) -> None:
    """A look may take a status that was read a moment ago for somebody else."""

    def counted() -> None:
        count = round(1000 * house.clock.now)
        house.kernel.counted["lhs-japan"] = QueueCounters(count, 100 * count, 0, 0, 0, count)

    house.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "90ms"})  # so that each look takes a whole status
    seen = []
    for asked_before_s in (0.0, 0.2, 0.0, 0.1):
        house.tick()
        counted()
        house.client.get("/api/status")
        house.tick(asked_before_s)
        counted()
        out = house.live.look().lanes["japan"].outbound
        seen.append((out.rate_bps, out.packets_per_s, out.drops_buffer_per_s))
    assert seen == [(0, 0, 0)] + [(800_000, 1000, 1000)] * 3


def test_between_surveys_only_the_counters_are_read(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    observed = []
    monkeypatch.setattr(house.kernel, "observe", lambda real=house.kernel.observe: observed.append(1) or real())
    bytes_per_s = []
    for second in range(1, 17):
        house.kernel.counted["lhs-japan"] = QueueCounters(second, 1000 * second, 0, 0, 0, 0)
        bytes_per_s.append(house.live.look().lanes["japan"].outbound.rate_bps // 8)
        house.tick()
    assert (len(observed), bytes_per_s) == (2, [0] + [1000] * 15)
    house.kernel.apply(DelEgress("lhs-japan"))
    house.tick(15)
    assert house.live.look().drift == 2
    observed.clear()
    house.tick()
    house.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "90ms"})
    looks = []
    for _ in range(3):
        looks.append(house.live.look())
        house.tick()
    assert [look.lanes["london"].asked_ns for look in looks] == [90_000_000] * 3
    assert len(observed) >= 3, "what waits to be confirmed counts down"


def test_what_the_watchdog_sees_is_in_the_next_look(house: House) -> None:
    house.live.look()
    house.tick()
    house.kernel.apply(DelEgress("lhs-japan"))
    assert house.live.look().drift == 0
    house.usecases.repair(restore=False)
    assert house.live.look().drift == 2


def test_the_watchdogs_checks_are_surveys_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.live.look()
    observed = []
    monkeypatch.setattr(house.kernel, "observe", lambda real=house.kernel.observe: observed.append(1) or real())
    for second in range(60):
        if second % 10 == 5:
            house.usecases.repair(restore=False)
        house.tick()
        house.live.look()
    assert len(observed) == 6, "the watchdog's own"
    house.kernel.apply(DelEgress("lhs-japan"))
    house.usecases.repair(restore=False)
    assert house.live.look().drift == 2
    observed.clear()
    for _ in range(3):  # drift may be repaired by somebody else: each check is followed by a survey
        house.usecases.repair(restore=False)
        assert house.live.look().drift == 2
    assert len(observed) == 6
    house.usecases.repair(restore=True)
    assert house.live.look().drift == 0


def test_a_change_by_another_process_is_seen_between_the_watchdogs_checks(house: House) -> None:
    house.live.look()
    other = Appliance(house.kernel, house.usecases.state_dir)
    lane = asked(house).lane("japan")
    other.set_lane(replace(lane, outbound=replace(lane.outbound, delay_ns=200_000_000)))
    house.usecases.repair(restore=False)
    assert house.live.look().lanes["japan"].asked_ns == 373_000_000


def test_events_carry_every_look_to_every_watcher(house: House) -> None:
    watchers = [house.client.get("/api/events").response for _ in range(3)]
    iterators = [iter(watcher) for watcher in watchers]  # type: ignore[arg-type]
    assert [next(one) for one in iterators] == [b"retry: 2000\n\n"] * 3  # type: ignore[call-overload]
    assert house.live.channel.watchers == 3
    house.live.look()
    for one in iterators:
        kind, data = read(next(one))  # type: ignore[call-overload]
        assert (kind, sorted(data["lanes"]), data["drift"]) == ("look", ["california", "japan", "london"], 0)
    iterators[0].close()  # type: ignore[attr-defined]
    assert house.live.channel.watchers == 2
    house.live.channel.close()
    assert [list(one) for one in iterators[1:]] == [[], []]  # type: ignore[call-overload]
    assert house.live.channel.watchers == 0


def test_a_watcher_that_slept_gets_what_it_missed_and_a_slow_one_only_the_end() -> None:
    channel = live.Channel()
    events: Iterator[bytes] = channel.watch()
    next(events)
    for number in range(200):
        channel.send("look", number)
    seen = [read(part.encode())[1] for part in next(events).decode().split("\n\n") if part]
    assert seen == list(range(200 - live.BACKLOG, 200))


@pytest.fixture
def no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long an event takes, no comment comes before it."""
    monkeypatch.setattr(live, "HEARTBEAT_S", PATIENCE_S)


@pytest.mark.usefixtures("no_heartbeat")
def test_a_watcher_waits_for_an_event_from_another_thread() -> None:
    channel, got = live.Channel(), []
    events = channel.watch()
    next(events)
    thread = threading.Thread(target=lambda: got.append(next(events)))
    thread.start()
    channel.send("run", {"id": "x"})
    thread.join(PATIENCE_S)
    assert read(got[0]) == ("run", {"id": "x"})


def test_too_many_watchers_are_sent_away(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.live.channel.watchers = live.MOST_WATCHERS
    answer = house.client.get("/api/events")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")


def test_the_past_is_kept_as_columns_and_bounded_to_an_hour(house: House) -> None:
    assert house.live.looks.maxlen == 3600
    for _ in range(3):
        house.live.look()
        house.tick()
    columns = house.client.get("/api/lanes/japan/past?seconds=2").json["columns"]
    assert columns["at_ms"] == [1001_000, 1002_000]
    assert columns["median_ns"] == [32_400_000] * 2
    assert {len(column) for column in columns.values()} == {2}
    assert house.client.get("/api/lanes/paris/past").status_code == 404


def test_a_lane_that_was_not_there_yet_has_gaps(house: House) -> None:
    house.live.look()
    tree = {"name": "x", "hub": "y", "lanes": {"new": {"rtt": "1ms"}}}
    house.client.put("/api/topology", json=tree)
    house.live.look()
    assert house.client.get("/api/lanes/new/past").json["columns"]["asked_ns"] == [None, 1_000_000]


@pytest.mark.usefixtures("no_heartbeat")
@pytest.mark.parametrize(
    ("trouble", "text"),
    [(MissingError("no kernel today"), "no kernel today"), (OSError("no such host"), "OSError: no such host")],
)
def test_the_thread_goes_on_after_trouble(
    house: House, monkeypatch: pytest.MonkeyPatch, trouble: Exception, text: str
) -> None:
    monkeypatch.setattr(live, "PERIOD_S", 0.001)
    troubles, done = [trouble], threading.Event()
    real = house.usecases.look

    def look() -> Any:
        if troubles:
            raise troubles.pop()
        done.set()
        return real()

    monkeypatch.setattr(house.usecases, "look", look)
    events = house.live.channel.watch()
    next(events)
    house.live.start()
    first, _, _ = next(events).partition(b"\n\n")  # a look may have followed at once
    assert read(first) == ("trouble", {"text": text})
    assert done.wait(PATIENCE_S)
    house.live.stop()
    assert not house.live._thread.is_alive()


class RecordedEcho:
    """Notes what becomes of it."""

    def __init__(self, log: list[str], hub: str, address: str) -> None:
        self.log, self.name, self.running = log, f"{hub} {address}", True
        log.append(f"start {self.name}")

    def take(self) -> Rtts:
        """One."""
        return Rtts((1,), 0)

    def alive(self) -> bool:
        """Until it is told to have died."""
        return self.running

    def stop(self) -> None:
        """Noted."""
        self.log.append(f"stop {self.name}")


def test_echoes_follow_the_topology() -> None:
    log: list[str] = []
    made: list[RecordedEcho] = []

    def start(hub: str, address: str) -> RecordedEcho:
        made.append(RecordedEcho(log, hub, address))
        return made[-1]

    echoes = Echoes(start)
    one, two = Topology("t", "hub", (Lane("a"),)), Topology("t", "hub", (Lane("a"), Lane("b")))
    echoes.follow(one)
    echoes.follow(two)
    assert log == ["start hub 10.77.0.2", "start hub 10.77.0.3"]
    assert echoes.take() == {"a": Rtts((1,), 0), "b": Rtts((1,), 0)}
    made[0].running = False
    echoes.follow(two)
    assert log[2:] == ["stop hub 10.77.0.2", "start hub 10.77.0.2"]
    echoes.stop()
    assert sorted(log[4:]) == ["stop hub 10.77.0.2", "stop hub 10.77.0.3"]


def test_a_host_that_is_not_there_yet_is_tried_again() -> None:
    tries = []

    def start(hub: str, address: str) -> RecordedEcho:
        tries.append(address)
        if len(tries) == 1:
            raise MissingError("no such host")
        return RecordedEcho([], hub, address)

    echoes, topology = Echoes(start), Topology("t", "hub", (Lane("a"),))
    for _ in range(3):
        echoes.follow(topology)
    assert len(tries) == 2
