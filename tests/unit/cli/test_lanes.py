"""up, down, status, plan and set: the real appliance over the kernel in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.folders import GOLDEN, TOPOLOGIES
from support.golden import golden

from emulator.cli import main
from emulator.control.appliance import Appliance
from emulator.kernel.fake import FakeKernel
from emulator.kernel.protocol import QueueCounters
from emulator.model.impairment_keys import named, shared_keys
from emulator.model.lane_patch import LanePatch
from emulator.model.topology import Lane
from emulator.plan.qdisc_ops import DelEgress

STAR = str(TOPOLOGIES / "new-york.yaml")
MS = 10**6


@dataclass
class CountingKernel(FakeKernel):
    """The kernel in memory, with counters as if there had been traffic."""

    counted: dict[str, QueueCounters] = field(default_factory=dict)

    def counters(self) -> dict[str, QueueCounters]:
        """What a test says, else zero."""
        return super().counters() | self.counted


class Terminal:
    """One user at the command line of one appliance."""

    def __init__(self, capsys: pytest.CaptureFixture[str], state_dir: Path) -> None:
        self.capsys, self.kernel = capsys, CountingKernel()
        self.appliance = Appliance(self.kernel, state_dir)

    def lane(self, name: str) -> Lane:
        """A lane as it is asked for now."""
        topology = self.appliance.topology()
        assert topology
        return topology.lane(name)

    def run(self, *args: str, code: int = 0) -> str:
        """What a command prints; its exit code must be `code`."""
        assert main.main(args, obj=self.appliance) == code
        out, err = self.capsys.readouterr()
        return err if code == 2 else out

    def json(self, *args: str, code: int = 0) -> Any:
        """What a command answers with --json."""
        return json.loads(self.run(*args, "--json", code=code))


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Terminal:
    """A terminal with nothing up."""
    return Terminal(capsys, tmp_path)


@pytest.fixture
def star(terminal: Terminal) -> Terminal:
    """A terminal with the founding star up."""
    terminal.run("up", STAR)
    return terminal


def test_up_says_what_is_up_and_is_idempotent(terminal: Terminal) -> None:
    assert terminal.run("up", STAR) == "new-york is up: 3 lanes, 75 steps\n"
    assert terminal.run("up", STAR) == "new-york is up: 3 lanes, nothing to change\n"
    assert terminal.json("up", STAR) == {
        "summary": "new-york is up: 3 lanes, nothing to change",
        "changed": False,
        "steps": [],
        "warnings": [],
    }


def test_a_dry_run_shows_the_plan_and_changes_nothing(terminal: Terminal) -> None:
    shown = terminal.run("up", "--dry-run", STAR)
    assert shown.endswith("# new-york would be up: 3 lanes, 75 steps\n")
    assert terminal.kernel.log == []
    assert shown.splitlines()[:-1] == terminal.run("plan", STAR).splitlines()[:-1]
    assert terminal.run("down", "--dry-run") == "# would be down: nothing was up\n"


def test_a_plan_is_a_shell_script_with_reasons(terminal: Terminal) -> None:
    lines = terminal.run("plan", STAR).splitlines()
    assert "ip netns add lh-japan  # a host" in lines
    assert lines[-1] == "# 75 steps"
    assert all(line.split()[0] in ("ip", "tc", "sysctl", "#") for line in lines)


def test_the_plan_in_json(terminal: Terminal) -> None:
    answer = terminal.json("plan", STAR)
    assert (answer["changed"], len(answer["steps"])) == (True, 75)
    assert {"command": "ip netns add lh-japan", "why": "a host"} in answer["steps"]


def test_down_takes_everything_away(star: Terminal) -> None:
    assert star.run("down", "--dry-run").endswith("# would be down: 15 steps\n")
    assert star.run("down") == "down: 15 steps\n"
    assert star.run("down") == "down: nothing was up\n"
    assert star.run("status") == "nothing is up: longhaul up FILE\n"
    assert star.json("status") == {
        "topology": None, "hub": None, "etag": '"e3b0c44298fc1c14"', "datapath": "netem", "lanes": [], "paths": [],
        "drift": [], "blocked": {}, "pending": None, "leased": False, "borrowed": False, "back_to": None,
        "schedule": None, "changing": False,
    }  # fmt: skip


def test_the_status_table(star: Terminal) -> None:
    star.run("set", "japan", "--loss", "0.01%", "--jitter", "1ms", "--direction", "inbound")
    star.run("set", "london", "--rate", "none")
    star.kernel.counted = {"lhs-california": QueueCounters(9, 99, 48, 12, 18168, 45)}
    star.run("set", "london", "--loss", "1% burst 5", "--duplicate", "0.1%", "--direction", "outbound")
    star.run("set", "california", "--aqm", "codel", "--ecn", "--buffer", "5ms")
    star.run(
        "set",
        "california",
        "--flow",
        "voice",
        "--match",
        "dscp=ef",
        "--corrupt",
        "ber 1e-9",
        "--distribution",
        "pareto",
    )
    shown = star.run("status")
    assert shown == golden(GOLDEN / "status.txt", shown)


def test_the_status_shows_every_setting_in_about_eighty_columns(star: Terminal) -> None:
    assert max(map(len, star.run("status").splitlines())) <= 80
    everything = {
        "jitter": "1ms", "distribution": "normal", "order": "free", "loss": "gilbert 1% 20% 80% 0.1%",
        "duplicate": "1%", "corrupt": "0.1%", "reorder": "0.1%", "ecn": "yes", "rate": "1Gbit", "buffer": "100p",
        "aqm": "codel", "overhead": "22B", "cells": "atm",
    }  # fmt: skip
    assert set(everything) == {key.name for key in shared_keys()}
    lane = star.appliance.topology().lane("london")  # type: ignore[union-attr]
    fields = {name: value for key, text in everything.items() for name, value in named(key).read(text).items()}
    star.appliance.set_lane(LanePatch.both(fields).apply(lane))
    shown = star.run("status")
    assert max(len(line.removesuffix("unknown by limit").rstrip()) for line in shown.splitlines()) <= 84
    below = " ".join(shown.replace("\n", " ").split())
    columns = ("jitter", "rate")
    assert [key for key, value in everything.items() if f"{key} {value}" not in below] == list(columns)


def test_the_status_in_json(star: Terminal) -> None:
    star.kernel.counted = {"lhs-japan": QueueCounters(9, 99, 48, 0, 0, 45)}
    answer = star.json("status")
    assert (answer["topology"], answer["drift"]) == ("new-york", [])
    assert answer["lanes"][2]["rtt_ns"] == 346 * MS
    assert answer["lanes"][2]["settings"] == {
        "outbound": {"delay": "173ms", "rate": "10Gbit"}, "inbound": {"delay": "173ms", "rate": "10Gbit"},
        "mtu": 1500, "line_rate": "10Gbit",
    }  # fmt: skip
    outbound = answer["lanes"][2]["outbound"]
    netem, tbf, aqm = (outbound.pop(name) for name in ("netem", "tbf", "aqm"))
    seen = (netem["delay_ns"], netem["limit"], tbf["rate_bytes_per_s"], aqm)
    assert seen == (173 * MS, 14417668, 1_250_000_000, None)
    assert outbound == {
        "port": "lhs-japan", "packets": 9, "bytes": 99, "queued_packets": 0, "queued_bytes": 0,
        "limit_packets": 14417668, "drops_limit": 3, "drops_buffer": 45, "drops_loss": 0, "not_permitted": [],
        "drops_above_pps": None, "drops_above_pps_buffer_full": None, "drops_since_loss": None,
    }  # fmt: skip


def test_drift_is_shown_and_exits_with_eight(star: Terminal) -> None:
    star.kernel.apply(DelEgress("lhs-japan"))
    drift = [line for line in star.run("status", code=8).splitlines() if line.startswith("drift: ")]
    assert len(drift) == 2
    assert drift[0].startswith("drift: impaired before the first packet; repair: tc qdisc replace dev lhs-japan root")
    answer = star.json("status", code=8)
    assert answer["lanes"][2]["outbound"]["netem"] is None
    assert answer["drift"][1]["why"] == "the bottleneck"
    star.run("up", STAR)
    assert star.json("status")["drift"] == []


def test_set_changes_what_it_names(star: Terminal) -> None:
    assert star.run("set", "california", "--rtt", "40ms") == "california is at 40 ms: 1 step\n"
    star.run("set", "california", "--loss", "1%", "--direction", "outbound")
    star.run("set", "california", "--buffer", "100p", "--outbound-delay", "25ms")
    lane = star.lane("california")
    assert (lane.outbound.delay_ns, lane.inbound.delay_ns) == (25 * MS, 20 * MS)
    assert (lane.outbound.loss_p32, lane.inbound.loss_p32) == (42_949_673, 0)
    assert lane.outbound.buffer
    assert lane.outbound.buffer == lane.inbound.buffer
    assert (lane.outbound.buffer.packets, lane.outbound.rate_bps) == (100, 10**10)
    star.run("set", "california", "--buffer", "auto")
    star.run("set", "california", "--off")
    assert star.lane("california").off
    egress = star.kernel.observe().ports["lhs-california"].egress
    assert egress and egress.shaper
    assert (egress.netem.delay_ns, egress.netem.loss_p32, egress.shaper.rate_bytes_per_s * 8) == (0, 0, 10**10)


def test_a_dry_set_changes_nothing(star: Terminal) -> None:
    before = star.appliance.topology()
    lines = star.run("set", "japan", "--rtt", "40ms", "--dry-run").splitlines()
    assert lines[0].startswith("tc -batch - <<END  # ")
    assert lines[-1] == "# japan would be at 40 ms: 4 steps"
    assert star.appliance.topology() == before


def test_what_set_refuses(star: Terminal) -> None:
    assert star.run("set", "berlin", "--off", code=2) == (
        "there is no lane 'berlin': use california, london or japan\n"
    )
    assert star.run("set", "japan", "--jitter", "1s", code=2) == (
        "japan: jitter 1 s exceeds the one-way delay of 173 ms\n"
    )
    star.run("down")
    assert star.run("set", "japan", "--off", code=2) == "japan: nothing is up: longhaul up FILE\n"
