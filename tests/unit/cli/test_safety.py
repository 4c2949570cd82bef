"""set with its scope and its names; confirm, undo, history as commands: the real appliance over paper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.clocked_appliance import MS, ONE, TWO, Machine, drift

from emulator.cli import main
from emulator.errors import RefusedError
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.plan.qdisc_ops import Together
from emulator.plan.state import State


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


class Counting(FakeKernel):
    """Counts the looks at everything."""

    looks = 0

    def observe(self) -> State:
        self.looks += 1
        return super().observe()

    def ports_of(self, names: frozenset[str]) -> State:
        seen = super().ports_of(names)
        self.looks -= 1
        return seen


def test_set_looks_at_its_lane_alone_unless_something_is_odd(machine: Machine) -> None:
    machine.kernel = kernel = Counting()
    lane = TWO.lane("japan")
    machine.appliance().up(TWO)
    kernel.looks = 0
    assert [type(s.op) for s in machine.appliance().set_lane(lane.with_rtt(40 * MS))] == [Together]
    assert kernel.looks == 0
    machine.appliance().set_lane(replace(lane, outbound=Impairment(MS, loss_p32=9)))
    assert kernel.looks == 2, "a loss changes the hosts too: everything is looked at, before and after"
    drift(machine, "lhs-japan")
    kernel.looks = 0
    machine.appliance().set_lane(lane.with_rtt(40 * MS))
    assert kernel.looks == 2
    assert machine.is_(TWO.with_lane(lane.with_rtt(40 * MS)))


def test_a_set_that_needs_more_memory_than_there_is_is_refused(machine: Machine) -> None:
    machine.kernel.memory_bytes = 2**28
    machine.appliance().up(ONE)
    with pytest.raises(RefusedError, match="the lanes' queues may need"):
        machine.appliance().set_lane(ONE.lane("japan").with_rtt(10_000 * MS))
    assert machine.is_(ONE)


def run(machine: Machine, capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    assert main.main(args, obj=machine.appliance()) == code
    out, err = capsys.readouterr()
    return out if code in (0, 8) else err


def test_the_commands(machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("name: one\nhub: hub\nlanes: {japan: {rtt: 10ms}, london: {rtt: 20ms}}\n")
    answer = run(machine, capsys, "up", str(file), "--confirm", "60s")
    assert answer.endswith("steps; reverts in 60 s unless you run: longhaul confirm\n")
    assert "pending: reverts to no topology in 60 s unless you run: longhaul confirm" in run(machine, capsys, "status")
    reported = json.loads(run(machine, capsys, "status", "--json"))
    assert (reported["pending"], reported["back_to"]) == ({"seconds_left": 60.0}, None)
    assert run(machine, capsys, "confirm") == "confirmed: one\n"
    assert "no change waits" in run(machine, capsys, "confirm", code=2)
    assert run(machine, capsys, "set", "--all", "--off") == "2 lanes are set: 6 steps\n"
    assert "10ms off  outbound" in run(machine, capsys, "status")
    assert run(machine, capsys, "set", "japan", "london", "--on") == "2 lanes are set: 1 step\n"
    assert run(machine, capsys, "undo") == "undo change 3: set japan london: 6 steps\n"
    shown = run(machine, capsys, "history", "2")
    assert shown.startswith("4  2001-09-09T00:00:01+00:00  alice (uid 1000, pid 4711): longhaul up\n    undo change 3")
    assert "    +  japan: {rtt: 10ms, mtu: 1500, line_rate: 10Gbit, disabled: true}" in shown
    assert [c["number"] for c in json.loads(run(machine, capsys, "history", "--json"))] == [4, 3, 2, 1]
    run(machine, capsys, "set", "japan", "--rtt", "11ms", "--confirm", "60s")
    run(machine, capsys, "set", "japan", "--rtt", "12ms")
    assert run(machine, capsys, "undo") == "undo what waited for confirmation: 4 steps\n"
    assert "pending" not in run(machine, capsys, "status")
    run(machine, capsys, "set", "japan", "--loss", "100%", "--confirm", "60s")
    machine.clock.pass_s(60)
    assert run(machine, capsys, "set", "japan", "--rtt", "15ms") == "japan is at 15 ms: 1 step\n"
    assert "rtt: 15ms, mtu" in run(machine, capsys, "history", "1"), "without the loss"
    assert run(machine, capsys, "undo").startswith("undo change ")
    for seconds in ("1ms", "24.1h", "1" + "0" * 28 + "h"):
        assert "--confirm needs 1s to 24h" in run(
            machine, capsys, "set", "japan", "--rtt", "1ms", "--confirm", seconds, code=2
        )
    assert "no lane is named: use" in run(machine, capsys, "set", "--rtt", "1ms", code=2)


def test_lane_names_are_completed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.shell_completion import ShellComplete

    monkeypatch.setenv("LONGHAUL_STATE", str(machine.folder))
    completion = ShellComplete(main.cli, {}, "longhaul", "_LONGHAUL_COMPLETE")
    assert completion.get_completions(["set"], "") == []
    machine.appliance().up(TWO)
    assert [c.value for c in completion.get_completions(["set"], "")] == ["japan", "london"]
    assert [c.value for c in completion.get_completions(["set"], "lo")] == ["london"]
    assert [c.value for c in completion.get_completions(["set", "japan"], "")] == ["london"]
    (machine.folder / "intent.json").write_text("spoilt")
    assert completion.get_completions(["set"], "") == []


@pytest.mark.parametrize(
    "command",
    [
        ("daemon", "--period", "nan"), ("daemon", "--period", "1e400"), ("daemon", "--period", "0"),
        ("verify", "--count", "10001"), ("verify", "--count", "1" + "0" * 30), ("verify", "--packets", "1000001"),
    ],
)  # fmt: skip
def test_a_number_without_an_end_is_one_clear_line(
    machine: Machine, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert f"{command[1]}" in run(machine, capsys, *command, code=2)
