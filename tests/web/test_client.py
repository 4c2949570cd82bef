"""The command line over --url: the same commands, answers and failures as on the machine itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.waiting import PATIENCE_S
from support.web_daemon import STAR, TOKENS, House

from emulator.cli import main
from emulator.config.loader import load
from emulator.control.change_log import here
from emulator.control.remote import Client, RemoteAppliance
from emulator.errors import InputError, LonghaulError, MissingError, RefusedError, RemoteError
from emulator.model.flow_match import Match
from web.server import Server


@dataclass
class Far:
    """A terminal far from the appliance: what it runs here and there."""

    house: House
    url: str
    capsys: pytest.CaptureFixture[str]

    def run(self, *args: str, code: int = 0) -> str:
        """What a command prints with --url."""
        assert main.main(["--url", self.url, *args]) == code
        out, err = self.capsys.readouterr()
        return out + err

    def here(self, *args: str) -> str:
        """The same command on the appliance itself."""
        main.main(args, obj=self.house.appliance)
        out, err = self.capsys.readouterr()
        return out + err


@pytest.fixture
def far(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    """A daemon with nothing up, and a terminal elsewhere that has its token."""
    house = House(tmp_path)
    server = Server(house.app, "127.0.0.1:0", threads=2)
    thread = threading.Thread(target=server.run)
    thread.start()
    monkeypatch.setenv("LONGHAUL_TOKEN", TOKENS.write)
    yield Far(house, f"http://{server.address}", capsys)
    server.end()
    thread.join(PATIENCE_S)


def test_the_whole_story_from_afar(far: Far) -> None:
    assert far.run("status") == "nothing is up: longhaul up FILE\n"
    assert far.run("up", "--dry-run", str(STAR)).endswith("# new-york would be up: 3 lanes, 75 steps\n")
    assert far.house.kernel.log == []
    assert far.run("up", str(STAR)) == "new-york is up: 3 lanes, 75 steps\n"
    assert far.house.appliance.topology() == load(STAR)
    assert far.run("set", "london", "--rtt", "90ms", "--loss", "0.1%") == "london is at 90 ms: 3 steps\n"
    london = far.house.appliance.topology().lane("london")  # type: ignore[union-attr]
    assert (london.rtt_ns, london.outbound.loss_p32) == (90_000_000, 4294967)
    assert far.run("set", "london", "--rtt", "80ms", "--loss", "0") == "london is at 80 ms: 6 steps\n"
    assert far.house.appliance.topology() == load(STAR)
    far.house.tick()
    assert far.run("status") == far.here("status")
    assert json.loads(far.run("status", "--json")) == json.loads(far.here("status", "--json"))
    assert far.run("plan", str(STAR)) == far.here("plan", str(STAR))
    assert far.run("down") == "down: 15 steps\n"
    assert far.house.kernel.bridges == {}


def test_flows_from_afar(far: Far) -> None:
    far.run("up", str(STAR))
    for name, match in (("voice", "dscp=ef"), ("bulk", "site_port=873")):
        far.run("set", "japan", "--flow", name, "--match", match, "--loss", "1%", "--jitter", "1ms")
    assert far.run("set", "japan", "--flow", "voice", "--loss", "0", "--direction", "inbound").endswith(": 1 step\n")
    far.run("set", "japan", "--flow", "bulk", "--match", "vlan=7", "--rtt", "8ms")
    voice, bulk = far.house.appliance.topology().lane("japan").flows  # type: ignore[union-attr]
    assert (voice.outbound.loss_p32, voice.inbound.loss_p32, voice.inbound.jitter_ns) == (42949673, 0, 10**6)
    assert (bulk.match, bulk.inbound.delay_ns, bulk.outbound.loss_p32) == (Match(vlan=7), 4 * 10**6, 42949673)
    far.house.tick()
    assert "  voice" in far.run("status")
    assert far.run("status") == far.here("status")
    assert json.loads(far.run("status", "--json")) == json.loads(far.here("status", "--json"))
    far.run("set", "japan", "--flow", "voice", "--away")
    far.run("set", "japan", "--flow", "bulk", "--away")
    assert far.house.appliance.topology() == load(STAR)


def test_one_lane_off_and_on_from_afar(far: Far) -> None:
    far.run("up", str(STAR))
    for option, off in (("--off", True), ("--on", False)):
        assert "nothing to change" not in far.run("set", "london", option)
        assert far.house.appliance.topology().lane("london").off == off  # type: ignore[union-attr]


def test_the_wire_engine_is_told_of_from_afar(far: Far) -> None:
    far.house.kernel.has_netem = False
    far.run("up", str(STAR))
    assert far.run("status").startswith("new-york: 3 lanes through the wire engine\n")
    assert json.loads(far.run("status", "--json")) == json.loads(far.here("status", "--json"))


def test_failures_are_those_of_the_machine_itself(far: Far) -> None:
    assert far.run("set", "london", "--rtt", "1ms", code=2) == "london: nothing is up: longhaul up FILE\n"
    far.run("up", str(STAR))
    far.house.kernel.fail_at = len(far.house.kernel.log)
    assert "injected" in far.run("set", "london", "--rtt", "1ms", code=9)
    assert far.house.appliance.topology() == load(STAR)


def test_drift_is_told_by_the_exit_code(far: Far) -> None:
    far.run("up", str(STAR))
    ports = far.house.kernel.ports
    ports["lhs-japan"] = replace(ports["lhs-japan"], egress=None)
    far.house.tick()
    assert "drift: " in far.run("status", code=8)


def test_whoever_is_faster_wins_and_the_other_is_told(far: Far) -> None:
    far.run("up", str(STAR))
    slow = RemoteAppliance(Client(far.url, TOKENS.write))
    topology = slow.topology()
    assert topology
    far.run("set", "london", "--rtt", "90ms")
    with pytest.raises(RefusedError, match="somebody else has changed the topology"):
        slow.set_lane(topology.lane("japan").with_rtt(1))
    with pytest.raises(RefusedError, match="somebody else has changed the topology"):
        slow.set_lanes([topology.lane(name).with_rtt(1) for name in ("japan", "london")])
    assert far.house.appliance.topology() == load(STAR).with_lane(load(STAR).lane("london").with_rtt(90_000_000))


def test_several_lanes_from_afar_are_one_change(far: Far) -> None:
    far.run("up", str(STAR))
    assert far.run("set", "london", "japan", "--rtt", "90ms", "--confirm", "60s").startswith("2 lanes are set: ")
    changed = far.house.appliance.topology()
    assert changed and [lane.rtt_ns // 10**6 for lane in changed.lanes] == [32, 90, 90]
    assert far.house.appliance.history(1)[0].summary == "set london japan"
    assert far.run("undo").startswith("undo what waited for confirmation: ")
    assert far.house.appliance.topology() == load(STAR)


def test_the_rest_of_the_use_cases(far: Far) -> None:
    remote = RemoteAppliance(Client(far.url, TOKENS.write))
    assert len(remote.up(load(STAR), confirm_s=3600)) == 75
    pending = remote.status().pending
    assert pending
    assert 0 < pending.left_ns <= (3600 + PATIENCE_S) * 10**9  # a slow disk extends the time
    remote.confirm()
    remote.set_lane(load(STAR).lane("japan").with_rtt(10**6))
    remote.undo()
    assert remote.topology() == load(STAR)
    made = [(change.author.user, change.author.command) for change in remote.history()]
    assert made == [(here("").user, "API with token, from 127.0.0.1")] * 3
    assert far.run("history", "1").splitlines()[1] == "    undo change 2: set japan"
    assert remote.nics() == []
    assert len(remote.plan_down()) == 15


def test_commands_that_work_here_only(far: Far) -> None:
    assert "--url: this command works only locally" in far.run("verify", code=2)


@pytest.mark.parametrize("url", ["localhost", "ftp://x", "http://", "unix:"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(InputError, match="is not an address"):
        Client(url)


def test_nobody_there() -> None:
    with pytest.raises(MissingError, match="start one with longhaul serve"):
        Client("http://127.0.0.1:1").ask("GET", "/")
    with pytest.raises(MissingError, match="start one with longhaul serve"):
        Client("unix:/nonexistent").ask("GET", "/")


@pytest.mark.parametrize(("token", "error"), [("", RefusedError), ("wrong", RefusedError), (TOKENS.read, RefusedError)])
def test_tokens_that_do_not_open(far: Far, token: str, error: type[LonghaulError]) -> None:
    with pytest.raises(error):
        Client(far.url, token).ask("DELETE", "/api/topology")


def test_the_token_is_this_machines_own_unless_said(far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGHAUL_TOKEN")
    monkeypatch.setenv("LONGHAUL_STATE", str(tmp_path / "mine"))
    assert "set $LONGHAUL_TOKEN to the token" in far.run("status", code=3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/token").write_text(TOKENS.read + "\n")
    assert far.run("status").startswith("nothing is up")


def test_an_answer_that_is_not_ours(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd() -> Any:
        return "<html>proxy error</html>", 502

    odd.role = "open"  # type: ignore[attr-defined]
    far.house.app.view_functions["healthz"] = odd
    with pytest.raises(RemoteError, match="answered 502: <html>"):
        Client(far.url).ask("GET", "/healthz")
