"""The web server's parts over the kernel in memory, for tests; time and round trips are what the test says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from emulator.analysis.impairment_statistics import ImpairmentCheck
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.change_log import Author
from emulator.control.rtt_monitor import Echoes, Rtts
from emulator.experiment import rtt_certificate
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.impairment_test import Proof
from emulator.experiment.rtt_certificate import Pair, Unanswered
from emulator.experiment.run_folder import Execution
from emulator.kernel.fake import FakeKernel
from emulator.kernel.protocol import QueueCounters
from emulator.model.topology import Topology
from support.folders import ROOT
from support.made_recordings import MadeUpPaths
from support.waiting import PATIENCE_S
from web.api.matrix import verification_answer
from web.api.recordings import recording_answer
from web.api.run_schemas import run_answer
from web.app import create_app
from web.auth.guard import Guard
from web.auth.tokens import Tokens
from web.certificates import Certificates
from web.context import ServerContext
from web.live import Live
from web.recordings import Recording, Recordings
from web.runs import Run, Runs
from web.service import UseCases
from web.traces import Traces
from web.verifications import Verification, Verifications, Wanted

STAR = ROOT / "topologies/new-york.yaml"
TOKENS = Tokens("may-write", "may-read", "may-operate")
MS = 10**6
PROBLEM = "application/problem+json"
AUTHOR = Author("root", 0, 1, "test")


@dataclass
class CountingKernel(FakeKernel):
    """The kernel in memory, with counters as if there had been traffic."""

    counted: dict[str, QueueCounters] = field(default_factory=dict)

    def counters(self) -> dict[str, QueueCounters]:
        """What a test says, else zero."""
        return super().counters() | self.counted


class FixedEcho:
    """Measures the same every time."""

    def take(self) -> Rtts:
        """Ten round trips from 32.0 to 32.9 ms, one lost."""
        return Rtts(tuple(32 * MS + n * MS // 10 for n in range(10)), 1)

    def alive(self) -> bool:
        """Always."""
        return True

    def stop(self) -> None:
        """Nothing runs."""


def made_up(topology: Topology, count: int, tolerance_ns: int) -> Iterator[Pair]:
    """A certificate's pairs without a network: all as asked."""
    for lane in topology.lanes:
        rtt = lane.rtt_ns
        yield Pair(topology.hub, lane.name, rtt, rtt, rtt, rtt, 0, False, tolerance_ns)


class MadeUpTools:
    """Measures nothing: every pair and impairment is as asked, unless a test says otherwise.

    `held` is waited for before each pair, so that a test can look meanwhile. A pair in `off_ns` is measured so much too
    long, and one in `silent` does not answer.
    """

    def __init__(self) -> None:
        self.held = threading.Semaphore(1_000_000)
        self.off_ns: dict[tuple[str, str], int] = {}
        self.silent: set[tuple[str, str]] = set()

    def ping(
        self, topology: Topology, wanted: Wanted, tolerance_ns: int, unanswered: Callable[[Unanswered], object]
    ) -> Iterator[Pair]:
        """The pairs in their order."""
        for one, other in wanted.pairs:
            assert self.held.acquire(timeout=PATIENCE_S)
            asked_ns = rtt_certificate.asked_ns(topology, one, other)
            if (one, other) in self.silent:
                unanswered(Unanswered(one, other, asked_ns, "none of 11 echoes was answered"))
                continue
            rtt = asked_ns + self.off_ns.get((one, other), 0)
            yield Pair(one, other, asked_ns, rtt, rtt, rtt, 0, False, tolerance_ns)

    def prove(self, topology: Topology, packets: int, tolerance_ns: int, lane: str) -> list[Proof]:
        """One row, about the delay of one direction."""
        ms = topology.lane(lane).outbound.delay_ns / MS
        return [Proof(lane, "outbound", ImpairmentCheck("delay", "ms", ms, ms, ms - 1, ms + 1))]


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class House:
    """A daemon, its application and a client that has the token."""

    def __init__(self, folder: Path, appliance: Appliance | None = None, runner: Any = None, **said: Any) -> None:
        self.kernel, self.clock = CountingKernel(), Clock()
        self.appliance = appliance or Appliance(self.kernel, folder, author=AUTHOR, guard=lambda _: None)
        self.usecases = UseCases(self.appliance, self.clock)
        self.live = Live(self.usecases, Echoes(lambda *_: FixedEcho()), self.clock, self.clock)
        self.reported: list[Run] = []

        def say(run: Run) -> None:
            self.reported.append(run)
            self.live.channel.send("run", run_answer(run).model_dump(mode="json"))

        runners = said.pop("runners", lambda *_: (runner or _no_cell, 1))
        # By the seed of 9 four cells stay in the table's order.
        own = {"set_aside": said.pop("set_aside", False), "order_seed": said.pop("order_seed", lambda: 9)}
        self.runs = Runs(folder / "runs", self.usecases, runners, say, **own)
        certificates, self.tools = Certificates(folder / "certificates", made_up), MadeUpTools()

        def tell(one: Verification) -> None:
            self.live.channel.send("verification", verification_answer(one).model_dump(mode="json"))

        self.verifications = Verifications(self.usecases, certificates, tell, self.tools)

        self.told: list[Recording] = []

        def told(one: Recording) -> None:
            self.told.append(one)
            self.live.channel.send("recording", recording_answer(one).model_dump(mode="json"))

        self.paths = MadeUpPaths()
        self.recordings = Recordings(folder / "recordings", self.usecases, told, self.paths)
        kept = Traces(folder / "traces"), self.recordings
        parts = (self.usecases, self.live, self.runs, certificates, self.verifications)
        self.daemon = ServerContext(*parts, *kept, clock=self.clock, **said)
        self.guard = Guard(TOKENS, clock=self.clock)
        self.app: Flask = create_app(self.daemon, self.guard)
        self.client = self.someone(TOKENS.write)

    def someone(self, token: str | None = None) -> FlaskClient:
        """A client with a token, or a stranger."""
        client = self.app.test_client()
        if token:
            client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
        return client

    def up(self) -> Any:
        """The founding star, by the API."""
        return self.client.put("/api/topology", data=STAR.read_text(), content_type="application/yaml")

    def tick(self, seconds: float = 1.0) -> None:
        """Time goes on."""
        self.clock.now += seconds


def _no_cell(spec: CellSpec) -> Execution:
    raise AssertionError("no cell was expected")


def star() -> Topology:
    """The founding star."""
    return loader.load(STAR)


def asked(house: House) -> Topology:
    """What the appliance was asked for."""
    topology = house.appliance.topology()
    assert topology
    return topology


def problem(response: Any, status: int) -> dict[str, Any]:
    """The problem that a request was answered with."""
    assert (response.status_code, response.content_type) == (status, PROBLEM), response.text
    value: dict[str, Any] = json.loads(response.text)
    assert value["status"] == status
    return value


def until(house: House, name: str, wanted: Any) -> Any:
    """The run once it is as wanted."""
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(answer := house.client.get(f"/api/runs/{name}").json):
        assert time.monotonic() < deadline, answer
        time.sleep(0.005)
    return answer
