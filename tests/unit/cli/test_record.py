"""record and replay at the command line: tools that say what a test wants, lanes in the kernel in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.folders import CAPTURES, TOPOLOGIES
from support.made_recordings import MS, Ended, folder, one_way

from emulator.cli import main
from emulator.cli.record import _sure
from emulator.control.appliance import Appliance
from emulator.errors import MeasureError
from emulator.hosts.tools.process import Completed
from emulator.kernel.fake import FakeKernel
from emulator.model.topology import Lane
from emulator.record import file, recording
from emulator.record.path_profile import Estimate
from emulator.record.probes import BACK, THERE
from emulator.record.recorder import Task, by_irtt, by_ping
from emulator.record.replay import onto

STAR = str(TOPOLOGIES / "new-york.yaml")
CAPTURE = (CAPTURES / "irtt-30-50ms.json").read_text()
NO_IRTT = Completed(("irtt",), "", "no", 1)


def pings(count: int, lost: Sequence[int] = ()) -> str:
    """What ping prints: `count` echoes after the first, one every 20 ms."""
    every = [n for n in range(count + 1) if n not in lost]
    lines = [f"[{1000 + n / 50 + 0.08:.6f}] 64 bytes from 1: icmp_seq={n + 1} time=80.{n % 10}00 ms" for n in every]
    return "\n".join(["PING x", *lines, "", f"{count + 1} packets transmitted, {len(every)} received", ""])


@dataclass
class Tools:
    """An end whose programs have ended already, in the order in which they are asked for."""

    programs: list[Ended] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)
    iperfs: list[Completed] = field(default_factory=list)

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        if argv[0] == "iperf3":
            return self.iperfs.pop(0)
        return Completed(tuple(argv), "", "", 0) if argv[0] == "ping" else NO_IRTT

    def start(self, argv: Sequence[str]) -> Ended:
        self.asked.append(list(argv))
        return self.programs.pop(0)


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    one = Tools()
    monkeypatch.setattr(recording, "Here", lambda: one)
    return one


@pytest.fixture
def appliance(tmp_path: Path) -> Appliance:
    """With the founding star up."""
    one = Appliance(FakeKernel(), tmp_path / "state", guard=lambda _: None)
    assert main.main(["up", STAR], obj=one) == 0
    return one


RECORD = ["record", "paris", "--every", "20ms", "--for", "10s", "--output"]


def test_a_path_is_recorded(tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools.programs = [Ended(pings(500, lost=[7, 8, 9, 500]))]
    assert main.main([*RECORD, str(tmp_path / "p")]) == 0
    out, _ = capsys.readouterr()
    assert out.startswith("paris by ping: RTT 80.000 ms at least, 80.400 ms as a median, 80.900 ms in 99 %")
    assert out.endswith(f"{tmp_path}/p/profile.yaml; replay it on a lane: longhaul replay {tmp_path}/p LANE\n")
    assert tools.asked == [["ping", "-n", "-D", "-3", "-i", "0.02", "-c", "501", "-W", "2", "-w", "14", "paris"]]
    profile = file.load(tmp_path / "p")
    assert (profile.outbound.found.packets, profile.outbound.found.bursts) == (500, 2)
    assert profile.outbound.found.lost.value == pytest.approx(4 / 500)
    assert (profile.source.tool, profile.source.ways) == ("ping", "assumed")


def test_an_interval_is_told_by_both_its_ends() -> None:
    assert _sure(Estimate(0.022, 0.0085, 0.0558), 100, "%") == "2.2 (0.85 .. 5.58) %"
    assert _sure(Estimate(1, 1, 1.98), 1, "") == "1 (1 .. 1.98)"


def test_ctrl_c_keeps_what_was_recorded(tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools.programs = [Ended(pings(500), cut_after=102)]
    assert main.main([*RECORD, str(tmp_path / "p")]) == main.INTERRUPTED
    assert file.load(tmp_path / "p").outbound.found.packets == 100
    assert "play it on a lane" in capsys.readouterr().out


def test_ctrl_c_before_the_first_answer_is_only_that(tools: Tools, tmp_path: Path) -> None:
    tools.programs = [Ended(pings(500), cut_after=0)]
    assert main.main([*RECORD, str(tmp_path / "p")]) == main.INTERRUPTED
    assert not (tmp_path / "p/profile.yaml").exists()


def test_what_a_crash_leaves_is_worked_out(tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools.programs = [Ended(pings(500))]
    assert main.main([*RECORD, str(tmp_path / "p")]) == 0
    lines = (tmp_path / "p/probes.csv").read_text()
    (tmp_path / "p/probes.csv").write_text(lines[: len(lines) // 2])
    (tmp_path / "p/profile.yaml").unlink()
    capsys.readouterr()
    assert main.main(["record", "--again", str(tmp_path / "p"), "--step", "100ms", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert 200 < answer["profile"]["outbound"]["found"]["packets"] < 300
    assert (tmp_path / "p/outbound.csv").read_text().count("\n") > 40


def test_a_step_below_the_interval_of_the_recording_is_refused(
    tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.programs = [Ended(pings(500))]
    assert main.main([*RECORD, str(tmp_path / "p")]) == 0
    capsys.readouterr()
    for step in ("0ms", "1us"):
        assert main.main(["record", "--again", str(tmp_path / "p"), "--step", step]) == 2
        assert "--step: a step of the trace must be at least the interval (every)" in capsys.readouterr().err


def test_against_another_path_the_answer_is_no(
    tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path / "other", one_way(1, 3_000))
    tools.programs = [Ended(pings(500)), Ended(pings(500))]
    assert main.main([*RECORD, str(tmp_path / "p"), "--against", str(tmp_path / "other")]) == 8
    assert "DIFFERENT" in capsys.readouterr().out
    assert main.main([*RECORD, str(tmp_path / "q"), "--against", str(tmp_path / "p"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["alike"]


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ([], "name a HOST, a --lane, or a folder for --again"),
        (["a", "--lane", "b"], "name a HOST, a --lane, or a folder for --again"),
        (["a", "--every", "1ms"], "--every: use at least 10 ms: more probes would load the path"),
        (["a", "--for", "10ms"], "--for: this duration is too short for one probe"),
        (["a", "--step", "10ms"], "--step: a step of the trace must be at least the interval"),
        (["a", "--against", "nowhere"], "nowhere: cannot be read: No such file or directory; longhaul record writes"),
        (["--lane", "berlin"], "--lane: there is no lane 'berlin': use california, london or japan"),
        (["--again", "nowhere"], "nowhere/recording.json: cannot be read"),
        (["--", "-f"], "HOST: -f: use a host's name or address"),
    ],
)
def test_what_record_refuses(
    appliance: Appliance, capsys: pytest.CaptureFixture[str], arguments: list[str], reported: str
) -> None:
    assert main.main(["record", *arguments], obj=appliance) == 2
    assert reported in capsys.readouterr().err


def test_irtt_that_does_not_answer_is_told(tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*RECORD, str(tmp_path / "p"), "--by", "irtt"]) == 7
    assert "irtt does not reach paris: run irtt server there, or omit --by to use ping" in capsys.readouterr().err


def notebook(tmp_path: Path) -> recording.Notebook:
    file.begin(tmp_path / "p", recording.RecordingSource("paris", "irtt", "2026-01-31T06:00:00Z", 20 * MS, "measured"))
    return recording.Notebook(tmp_path / "p", lambda _: None)


def test_irtt_tells_where_a_probe_was_lost(tmp_path: Path) -> None:
    answer = json.loads(CAPTURE)
    answer["round_trips"][3] |= {"lost": "true_up", "delay": {}}
    answer["round_trips"][4] |= {"lost": "true_down", "delay": {}}
    tools = Tools([Ended(json.dumps(answer)), Ended("", cut_after=0)])
    with notebook(tmp_path) as notes, pytest.raises(KeyboardInterrupt):
        by_irtt(Task(tools, "paris", 20 * MS, 10**9), notes)  # type: ignore[arg-type]
    assert [p.lost for p in notes.probes] == ["", "", "", THERE, BACK, "", "", "", "", ""]
    assert [p.sent_ns // MS for p in notes.probes] == [0, 20, 40, 60, 80, 100, 120, 140, 160, 180]
    assert notes.probes[0].there_ns == pytest.approx(30 * MS, rel=0.01)
    assert file.recorded(tmp_path / "p")[1] == notes.probes


def test_a_tool_that_fails_says_why(tmp_path: Path) -> None:
    task = Task(Tools([Ended("", 2, "ping: sendmsg: Operation not permitted")]), "paris", 20 * MS, 10**9)  # type: ignore[arg-type]
    with notebook(tmp_path) as notes, pytest.raises(MeasureError, match="Operation not permitted"):
        by_ping(task, notes)


def iperf(bits_per_second: float) -> Completed:
    return Completed(("iperf3",), json.dumps({"end": {"sum_received": {"bits_per_second": bits_per_second}}}), "", 0)


def test_rates_are_with_link_headers_and_stay_with_the_folder(tools: Tools, tmp_path: Path) -> None:
    tools.programs, tools.iperfs = [Ended(pings(500))], [iperf(1448e5), iperf(1448e4)]
    assert main.main([*RECORD, str(tmp_path / "p"), "--rate"]) == 0
    assert main.main(["record", "--again", str(tmp_path / "p")]) == 0
    profile = file.load(tmp_path / "p")
    assert (profile.outbound.rate_bps, profile.inbound.rate_bps) == (151_400_000, 15_140_000)
    lane = onto(Lane("far"), profile)
    assert (lane.outbound.rate_bps, lane.inbound.rate_bps) == (151_400_000, 15_140_000)


def test_what_iperf3_says_is_told(tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools.programs = [Ended(pings(500))]
    tools.iperfs = [Completed(("iperf3",), '{"error": "unable to connect: Connection refused"}', "", 1)]
    assert main.main([*RECORD, str(tmp_path / "p"), "--rate"]) == 7
    assert "iperf3: unable to connect: Connection refused" in capsys.readouterr().err
    assert file.load(tmp_path / "p").outbound.rate_bps is None


def test_a_profile_is_played_on_a_lane(
    appliance: Appliance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile, before = folder(tmp_path / "paris", one_way(1, 3_000)), appliance.topology()
    capsys.readouterr()
    assert main.main(["replay", str(tmp_path / "paris"), "london", "--dry-run"], obj=appliance) == 0
    assert capsys.readouterr().out.endswith("# london would be as paris was: 6 steps\n")
    assert appliance.topology() == before
    assert main.main(["replay", str(tmp_path / "paris"), "london"], obj=appliance) == 0
    assert capsys.readouterr().out == "london is as paris was: 6 steps\n"
    after = appliance.topology()
    assert before and after
    assert after.lane("london").outbound.distribution == profile.outbound.table
    assert after.lane("london").outbound.rate_bps == 10**10
    assert after.lane("japan") == before.lane("japan")


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["berlin"], "there is no lane 'berlin': use california, london or japan"),
        (["london", "--trace", "--dry-run"], "--trace excludes --confirm and --dry-run"),
        (["london", "--loop"], "--loop and --for need --trace"),
    ],
)
def test_what_replay_refuses(
    appliance: Appliance, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reported: str
) -> None:
    folder(tmp_path / "paris", one_way(1, 100))
    assert main.main(["replay", str(tmp_path / "paris"), *arguments], obj=appliance) == 2
    assert reported in capsys.readouterr().err


def test_no_trace_is_played_while_a_change_waits(
    appliance: Appliance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the end it restores the lanes of its start, and would make them permanent unconfirmed."""
    folder(tmp_path / "paris", one_way(1, 100))
    main.main(["set", "london", "--rtt", "90ms", "--confirm", "60s"], obj=appliance)
    before = appliance.topology()
    assert main.main(["replay", str(tmp_path / "paris"), "london", "--trace"], obj=appliance) == 3
    assert "a change waits for confirmation: run longhaul confirm or longhaul undo first" in capsys.readouterr().err
    assert appliance.topology() == before
    assert appliance.pending_ns() is not None


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["schema", "--path-profile"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Longhaul path profile"
