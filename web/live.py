"""Live data of the lanes: one observation a second, kept for an hour and sent to every watcher."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from emulator.config import writer
from emulator.control.live_rates import FlowNow, LaneNow, Reading, flows, quantile, reading, together, traffic
from emulator.control.rtt_monitor import Echoes, Rtts
from emulator.control.status import LaneStatus, Status
from emulator.errors import LonghaulError
from emulator.experiment import engine_lateness
from web.service import UseCases

PERIOD_S = 1.0
KEPT_S = 3600
MOST_WATCHERS = 220
HEARTBEAT_S = 15.0
BACKLOG = 64
"""A watcher that is more than this many events behind is disconnected."""

NO_RTTS = Rtts()
log = logging.getLogger("longhaul.web")


class Look(Struct, frozen=True):
    """One observation of all lanes: the time in ms since 1970 and the values; `changes` counts the changes so far.

    With `leased` a measurement (a test run or a verification) has leased the lanes. `back_to` is the topology that
    returns when the lease ends, or when a pending change is not confirmed. `changing` is Status's. `scheduled` holds
    the lanes that a schedule changes, with their present settings as in a topology file. `late_ns` is how late the wire
    engine sent since the look before (99th percentile of the worst direction); None without an engine or traffic.
    `played_ns` is Status's.
    """

    at_ms: int
    lanes: Mapping[str, LaneNow]
    drift: int
    changes: int
    seconds_left: float | None = None
    leased: bool = False
    back_to: str | None = None
    changing: bool = False
    scheduled: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    late_ns: int | None = None
    played_ns: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The event's data for watchers."""
        return {**asdict(self), "lanes": {name: lane.to_json() for name, lane in self.lanes.items()}}


class Channel:
    """Sends events to watchers, each at its own pace. Events are encoded once for all watchers."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._events: deque[tuple[int, bytes]] = deque(maxlen=BACKLOG)
        self._last, self._open, self.watchers = 0, True, 0

    def send(self, kind: str, value: object) -> None:
        """Send an event to all watchers."""
        with self._turn:
            self._last += 1
            data = json.dumps(value, separators=(",", ":"))
            self._events.append((self._last, f"id: {self._last}\nevent: {kind}\ndata: {data}\n\n".encode()))
            self._turn.notify_all()

    def close(self) -> None:
        """Send no more events; watchers end."""
        with self._turn:
            self._open = False
            self._turn.notify_all()

    def watch(self) -> Iterator[bytes]:
        """The events from now on, and regular comments, so that each end notices when the other is gone."""
        with self._turn:
            self.watchers += 1
            seen = self._last
        try:
            yield b"retry: 2000\n\n"
            while True:
                with self._turn:
                    if self._open and self._last <= seen:
                        self._turn.wait(HEARTBEAT_S)
                    if not self._open:
                        return
                    new = b"".join(data for number, data in self._events if number > seen)
                    seen = self._last
                yield new or b": still here\n\n"
        finally:
            with self._turn:
                self.watchers -= 1


class Live:
    """Observes the lanes every second in its own thread."""

    def __init__(
        self,
        usecases: UseCases,
        echoes: Echoes,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.channel = Channel()
        self._usecases, self._echoes, self._clock, self._wall = usecases, echoes, clock, wall
        self.looks: deque[Look] = deque(maxlen=int(KEPT_S / PERIOD_S))
        self._before: Reading | None = None
        self._lanes: tuple[LaneStatus, ...] = ()
        self.looked_at: float | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live", daemon=True)

    def start(self) -> None:
        """Start observing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop observing; watchers end."""
        self._end.set()
        self.channel.close()
        if self._thread.is_alive():
            self._thread.join()
        self._echoes.stop()

    def look(self) -> Look:
        """Observe once, keep the result and send it. Raises what the appliance raises."""
        counted_s, status = self._usecases.look()
        # Observing would disturb the test run's measurement, and its lanes are not the user's.
        self._echoes.follow(None if status.leased else status.topology)
        now = reading(round(counted_s * 1e9), status)
        before, rtts = self._before or now, self._echoes.take()
        lanes = {one.lane.name: _lane_now(one, before, now.at_ns, rtts) for one in status.lanes}
        late = [one.p99_ns for one in engine_lateness.between(self._lanes, status.lanes, 0)]
        self._before, self._lanes, self.looked_at = now, status.lanes, self._clock()
        back_to = status.pending.back_to if status.pending else None
        seen = Look(
            round(self._wall() * 1000), lanes, len(status.drift), self._usecases.changes,
            self._usecases.seconds_left(status), status.leased, back_to, status.changing, _scheduled(status),
            max(late, default=None), status.played_ns,
        )  # fmt: skip
        self.looks.append(seen)
        self.channel.send("look", seen.to_json())
        return seen

    def _run(self) -> None:
        while not self._end.wait(PERIOD_S):
            try:
                self.look()
            except LonghaulError as error:
                log.warning("cannot observe the lanes: %s", error)
                self.channel.send("trouble", {"text": str(error)})
            except Exception as error:  # without this thread the pages would show the last look for ever
                log.exception("cannot observe the lanes")
                self.channel.send("trouble", {"text": f"{type(error).__name__}: {error}"})


def _scheduled(status: Status) -> dict[str, dict[str, Any]]:
    """By lane that a schedule changes, its present settings."""
    topology = status.topology
    if topology is None or topology.schedule is None:
        return {}
    names = {name for track in topology.schedule.tracks for name in track.lanes or topology.sites}
    return {one.lane.name: writer.lane_tree(one.lane, apart=True) for one in status.lanes if one.lane.name in names}


def _lane_now(one: LaneStatus, before: Reading, now_ns: int, rtts: Mapping[str, Rtts]) -> LaneNow:
    echoed, parts = rtts.get(one.lane.name, NO_RTTS), flows(one, before, now_ns)
    ways = parts.values() or [FlowNow(traffic(one.outbound, before, now_ns), traffic(one.inbound, before, now_ns))]
    return LaneNow(
        one.lane.in_effect.rtt_ns,
        quantile(echoed.sorted_ns, 0.0),
        quantile(echoed.sorted_ns, 0.5),
        quantile(echoed.sorted_ns, 0.99),
        echoed.lost,
        together([part.outbound for part in ways]),
        together([part.inbound for part in ways]),
        parts,
    )


def overview(looks: list[Look], names: Sequence[str]) -> dict[str, dict[str, list[int | None]]]:
    """By lane, its past requested and measured RTT (median) in ns, for small graphs; None where a value is unknown."""
    return {
        name: {
            field: [getattr(look.lanes.get(name), field, None) for look in looks] for field in ("asked_ns", "median_ns")
        }
        for name in names
    }


def columns(looks: list[Look], lane: str) -> dict[str, list[Any]]:
    """One lane's past as columns for a graph; null before the lane existed."""
    found: dict[str, list[Any]] = {"at_ms": [look.at_ms for look in looks]}
    lanes = [look.lanes.get(lane) for look in looks]
    for name in ("asked_ns", "min_ns", "median_ns", "p99_ns", "lost"):
        found[name] = [getattr(one, name) if one else None for one in lanes]
    for side in ("outbound", "inbound"):
        for name in (
            "rate_bps", "queued_packets", "limit_packets", "queued_bytes", "buffer_bytes", "drops_limit_per_s",
            "drops_buffer_per_s", "drops_loss_per_s",
        ):  # fmt: skip
            found[f"{side}_{name}"] = [getattr(getattr(one, side), name) if one else None for one in lanes]
    return found
