"""The options of `set` for every impairment, and the commands of schedules, over the kernel in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.folders import ROOT

from emulator.cli import main
from emulator.config import loader
from emulator.control import state_files
from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.kernel.fake import FakeKernel
from emulator.model.flow_match import Match
from emulator.model.impairment import Impairment
from emulator.model.loss_model import GilbertElliott
from emulator.model.topology import Flow

STAR, DAY = str(ROOT / "topologies/new-york.yaml"), str(ROOT / "topologies/day.yaml")


@pytest.fixture
def appliance(tmp_path: Path) -> Appliance:
    """With the founding star up."""
    one = Appliance(FakeKernel(), tmp_path)
    assert main.main(["up", STAR], obj=one) == 0
    return one


def japan(appliance: Appliance, *options: str) -> tuple[Impairment, Impairment]:
    """Both directions of a lane after `set` with these options."""
    assert main.main(["set", "japan", *options], obj=appliance) == 0
    topology = appliance.topology()
    assert topology
    return topology.lane("japan").outbound, topology.lane("japan").inbound


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (["--distribution", "pareto"], {"distribution": "pareto"}),
        (["--order", "free"], {"keep_order": False}),
        (["--loss", "1% burst 5"], {"loss_model": GilbertElliott(8_676_702, 858_993_459)}),
        (["--duplicate", "1%"], {"duplicate_p32": 42_949_673}),
        (["--corrupt", "ber 1e-9"], {"ber_e15": 10**6}),
        (["--corrupt", "1%"], {"corrupt_p32": 42_949_673}),
        (["--reorder", "1%"], {"reorder_p32": 42_949_673}),
        (["--aqm", "codel", "--ecn"], {"aqm": "codel", "ecn": True}),
        (["--overhead", "22B", "--cells", "atm"], {"overhead_bytes": 22, "atm": True}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_option_sets_its_field_of_one_direction_and_no_other(
    appliance: Appliance, options: list[str], fields: dict[str, object]
) -> None:
    before = japan(appliance, "--jitter", "3ms")
    after = japan(appliance, *options, "--direction", "inbound")
    assert after == (before[0], replace(before[1], **fields))  # type: ignore[arg-type]


def test_a_plain_loss_takes_the_place_of_bursts(appliance: Appliance) -> None:
    japan(appliance, "--loss", "1% burst 5")
    plain = japan(appliance, "--loss", "2%")[0]
    assert (plain.loss_p32, plain.loss_model) == (85_899_346, None)


def test_set_makes_changes_and_removes_a_flow(appliance: Appliance, capsys: pytest.CaptureFixture[str]) -> None:
    def flows() -> tuple[Flow, ...]:
        topology = appliance.topology()
        assert topology
        return topology.lane("japan").flows

    before = japan(appliance, "--rtt", "80ms")
    made = ["set", "japan", "--flow", "voice", "--match", "dscp=ef", "--match", "vlan=7", "--rtt", "120ms"]
    assert reported(appliance, capsys, *made, "--dry-run").endswith(
        "# flow voice of japan would be at 120 ms: 18 steps\n"
    )
    assert flows() == ()
    assert reported(appliance, capsys, *made) == "flow voice of japan is at 120 ms: 18 steps\n"
    assert flows() == (Flow("voice", Match(dscp=46, vlan=7), *[Impairment(60_000_000)] * 2),)
    changed = ["set", "japan", "--flow", "voice", "--loss", "1% burst 5", "--direction", "inbound"]
    assert reported(appliance, capsys, *changed) == "flow voice of japan is at 120 ms: 3 steps\n"
    assert flows()[0].inbound.loss_model == GilbertElliott(8_676_702, 858_993_459)
    assert flows()[0].outbound == Impairment(60_000_000)
    assert reported(appliance, capsys, "set", "japan", "--flow", "voice", "--delete").startswith(
        "flow voice of japan is deleted"
    )
    assert flows() == ()
    assert japan(appliance, "--rtt", "80ms") == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--flow", "voice", "--loss", "1%"],
            "japan: there is no flow 'voice', nor any other; a new flow needs a match",
        ),
        (["--flow", "voice"], "there is nothing to change"),
        (["--flow", "voice", "--off"], "--on and --off change whole lanes: use them without --flow"),
        (["--delete"], "--match and --delete need --flow"),
        (["--match", "dscp=ef"], "--match and --delete need --flow"),
        (
            ["--flow", "voice", "--delete", "--loss", "1%"],
            "--on, --off and --delete exclude all other settings: use one of them alone",
        ),
        (["--flow", "voice", "--match", "prot=tcp"], "'prot=tcp' is not KEY=VALUE; the keys are hub, site, protocol"),
        (["--flow", "voice", "--match", "port=1", "--match", "port=2"], "port is given twice"),
        (["--flow", "voice", "--match", "dscp=gold"], "'gold' is not a code point"),
        (["--flow", "voice", "--match", "protocol=icmp", "--match", "port=1"], "only tcp and udp have ports"),
        (["--flow", "Voice", "--match", "port=1"], "flow name 'Voice' is not of a-z"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_of_flows_that_make_no_sense(
    appliance: Appliance, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main.main(["set", "japan", *options], obj=appliance) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_status_tells_bursts_and_that_drops_by_limit_are_unknown(
    appliance: Appliance, capsys: pytest.CaptureFixture[str]
) -> None:
    japan(appliance, "--loss", "1% burst 5", "--aqm", "red", "--direction", "inbound")
    capsys.readouterr()
    assert main.main(["status"], obj=appliance) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "~" in line)
    assert "~1.000%" in row
    assert "unknown" in row
    assert main.main(["status", "--json"], obj=appliance) == 0
    inbound = json.loads(capsys.readouterr().out)["lanes"][2]["inbound"]
    assert ("plog" in str(inbound["aqm"]), inbound["drops_limit"]) == (True, None)
    assert inbound["netem"]["gemodel"] == [8_676_702, 858_993_459, 0, 0]


def test_a_schedule_is_checked_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["schedule", "check", DAY, "--json", "--width", "24"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["span_ns"] == 86_400 * 10**9
    assert {(row["lane"], row["figure"]) for row in answer["rows"]} >= {("london", "delay"), ("ship", "rate")}
    assert {len(row["line"]) for row in answer["rows"]} == {24}


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_file_without_a_schedule(appliance: Appliance, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main.main(["schedule", command, STAR], obj=appliance) == 2
    assert capsys.readouterr().err.endswith("new-york.yaml: schedule: this file has no schedule:\n")


def test_a_run_ends_with_the_lanes_of_the_file(appliance: Appliance, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main.main(["schedule", "run", DAY, "--for", "1ms", "--json"], obj=appliance) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["skipped"], answer["drifts"]) == (0, 0)
    topology = appliance.topology()
    assert topology == replace(loader.load(DAY), schedule=None)
    assert appliance.plan(topology) == []


@pytest.mark.parametrize("meanwhile", [["down"], ["up", STAR], ["set", "ship", "--rtt", "9ms"]])
def test_the_end_of_a_run_keeps_what_somebody_else_changed_meanwhile(
    appliance: Appliance, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, meanwhile: list[str]
) -> None:
    waits: list[int] = []

    def sleep_until(_: object, at_ns: int) -> None:
        if not waits:
            assert main.main(meanwhile, obj=Appliance(appliance._machine.kernel, appliance.state_dir)) == 0
        waits.append(at_ns)

    monkeypatch.setattr("emulator.system.timer.RealAlarm.sleep_until", sleep_until)
    capsys.readouterr()
    assert main.main(["schedule", "run", DAY, "--for", "1ms"], obj=appliance) == 0
    day, end = replace(loader.load(DAY), schedule=None), appliance.topology()
    if meanwhile[0] == "set":
        assert end == day.with_lane(day.lane("ship").with_rtt(9_000_000))
    else:
        assert end == (loader.load(STAR) if meanwhile[0] == "up" else None)
        told = "warning: somebody else ended the schedule: the lanes stay as they are now\n"
        assert capsys.readouterr().err.endswith(told)


def test_a_schedule_that_nobody_plays_is_told(appliance: Appliance, capsys: pytest.CaptureFixture[str]) -> None:
    """Else the lanes stay as they are at its start, and after its first change status calls that drift."""
    told = "warning: nobody plays the schedule: run longhaul schedule run FILE, or longhaul daemon\n"
    for command in (["up", DAY], ["status"], ["status", "--json"]):
        capsys.readouterr()
        assert main.main(command, obj=appliance) == 0
        assert told in capsys.readouterr().err
    with state_files.playing(appliance.state_dir):
        for command in (["up", DAY], ["status"]):
            assert main.main(command, obj=appliance) == 0
    assert main.main(["up", STAR], obj=appliance) == 0
    assert main.main(["status"], obj=appliance) == 0
    assert capsys.readouterr().err == ""


OVER = """
name: over
hub: hub
lanes: {far: {rtt: 80ms}}
schedule: {start: 2001-01-01T00:00:00Z, tracks: [{keys: [{at: 0s, rtt: 20ms}, {at: 1s, rtt: 40ms}]}]}
"""


def test_a_schedule_that_is_over_leaves_its_last_key_and_can_be_run_again(tmp_path: Path) -> None:
    one = Appliance(FakeKernel(), tmp_path)
    (tmp_path / "over.yaml").write_text(OVER)
    assert main.main(["schedule", "run", str(tmp_path / "over.yaml")], obj=one) == 0
    assert [lane.lane.rtt_ns for lane in one.status().lanes] == [40_000_000]
    assert one.status().as_asked
    began_ns = IntentStore(tmp_path).read().began_ns
    (tmp_path / "now.yaml").write_text(OVER.replace("2001-01-01T00:00:00Z", "now").replace("1s", "1ms"))
    for _ in range(2):
        assert main.main(["schedule", "run", str(tmp_path / "now.yaml")], obj=one) == 0
        before, began_ns = began_ns, IntentStore(tmp_path).read().began_ns
        assert began_ns != before


def test_ctrl_c_tells_what_was_and_the_next_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    one = Appliance(FakeKernel(), tmp_path)
    monkeypatch.setattr("emulator.system.timer.RealAlarm.sleep_until", interrupted)
    began = []
    for _ in range(2):
        assert main.main(["schedule", "run", DAY, "--json"], obj=one) == main.INTERRUPTED
        assert json.loads(capsys.readouterr().out)["changes"] == 0
        began.append(IntentStore(tmp_path).read().began_ns)
    assert began[0] == began[1]
    assert main.main(["schedule", "run", DAY, "--restart"], obj=one) == main.INTERRUPTED
    assert "The schedule so far:\n0 changes, 0 skipped" in reported(one, capsys, "status")


def reported(appliance: Appliance, capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert main.main(list(command), obj=appliance) == 0
    return capsys.readouterr().out


def test_verify_of_impairments_needs_something_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = Appliance(FakeKernel(), tmp_path / "none")
    assert main.main(["verify", "--impairments"], obj=empty) == 2
    assert capsys.readouterr().err == "nothing is up: longhaul up FILE\n"


def test_the_old_options_are_read_with_a_hint(appliance: Appliance, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert japan(appliance, "--rate", "1Gbit", "--queue", "red")[0].aqm == "red"
    hint = "warning: --queue is now called --aqm; the old name is read for this release only\n"
    assert capsys.readouterr().err == hint
    assert main.main(["set", "japan", "--queue", "red", "--aqm", "codel"], obj=appliance) == 2
    assert "--queue is the old name of --aqm: give --aqm alone" in capsys.readouterr().err
    match = ["--flow", "voice", "--match", "dscp=ef"]
    japan(appliance, *match, "--rtt", "80ms")
    japan(appliance, "--flow", "voice", "--away")
    assert "--away is now called --delete" in capsys.readouterr().err


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_value_that_the_schedule_contradicts_is_refused_with_its_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dry_run: bool
) -> None:
    one = Appliance(FakeKernel(), tmp_path)
    assert main.main(["up", DAY], obj=one) == 0
    capsys.readouterr()
    assert main.main(["set", "ship", "--rtt", "300ms", "--jitter", "100ms", *["--dry-run"] * dry_run], obj=one) == 2
    text = "at 72600 s of the schedule: jitter 100 ms exceeds the one-way delay of 30 ms"
    assert capsys.readouterr().err == f"ship: {text}\n"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_value_that_the_schedule_sets_is_taken_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dry_run: bool
) -> None:
    one = Appliance(FakeKernel(), tmp_path)
    assert main.main(["up", DAY], obj=one) == 0
    capsys.readouterr()
    assert main.main(["set", "london", "--rtt", "70ms", *["--dry-run"] * dry_run], obj=one) == 0
    said = capsys.readouterr().err
    assert said == "warning: london: the schedule sets rtt, in place of this change: change the schedule, too\n"
