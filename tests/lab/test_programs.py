"""Programs over lanes in the lab: times that are known, connections, files, and everything that can go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.lab_cells import MIB, MS, spec

from emulator.control.appliance import Appliance
from emulator.errors import MeasureError
from emulator.experiment import program_cell, repeated_result, run_cell
from emulator.experiment.program_result import ProgramResult
from emulator.experiment.run_folder import Asked, Execution, RunFolder
from emulator.hosts.tools.program import ProgramWorkload
from emulator.model.program import Ready, of_settings

SERVER = """
import socket, sys
server = socket.create_server(("", 7))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    while size := connection.recv(4, socket.MSG_WAITALL):
        connection.sendall(bytes(int.from_bytes(size)))
"""
CLIENT = """
import socket, sys, time
address, connections, turns, size, pause = sys.argv[1], *map(float, sys.argv[2:])
for _ in range(int(connections)):
    with socket.create_connection((address, 7)) as connection:
        for _ in range(int(turns)):
            connection.sendall(int(size).to_bytes(4))
            left = int(size)
            while left:
                left -= len(connection.recv(min(left, 1 << 20)))
            time.sleep(pause)
"""
TURNS: dict[str, Any] = {
    "name": "turns",
    "server": "exec python3 server.py",
    "ready": Ready("output", "^listening"),
    "files": {"server.py": SERVER, "client.py": CLIENT},
    "repeat": 2,
}


def run(appliance: Appliance, settings: dict[str, Any], rtt_ms: int = 80, **cell: Any) -> Execution:
    """A cell with this program over a lane of 1 Gbit/s."""
    one = replace(spec(rate_mbit=1000, rtt_ms=rtt_ms, **cell), workload=ProgramWorkload(of_settings(settings)))
    return run_cell.execute(one, appliance)


def ran(appliance: Appliance, settings: dict[str, Any], rtt_ms: int = 80, **cell: Any) -> ProgramResult:
    result = run(appliance, settings, rtt_ms, **cell).result
    assert isinstance(result, ProgramResult)
    return result


def turns(connections: int, turns: int, size: int = 1, pause: float = 0) -> dict[str, Any]:
    return {**TURNS, "client": f"python3 client.py {{server}} {connections} {turns} {size} {pause}"}


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    before = set(Path("/tmp").glob("longhaul-program-*"))
    yield
    assert set(Path("/tmp").glob("longhaul-program-*")) == before
    assert not [pid for pid in Path("/proc").glob("[0-9]*") if b"server.py" in command_line(pid)]


def command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("rtt_ms", [10, 346])
def test_seven_turns_and_a_handshake_are_eight_round_trips(appliance: Appliance, rtt_ms: int) -> None:
    result = ran(appliance, turns(1, 7), rtt_ms)
    # Python's own start asks for hundreds of files that are not there: 1 us each.
    assert [one.completion_ns for one in result.program.runs] == pytest.approx([8 * rtt_ms * MS] * 2, abs=MS)
    assert (len(result.program.median.connections), result.program.median.retransmits) == (1, 0)
    assert result.judgement.kind == "round trips"
    assert not result.judgement.invalid


def test_a_lane_longer_than_the_pause_between_two_echoes_is_measured_as_asked(appliance: Appliance) -> None:
    """Before the first answer to ARP all echoes wait: together, where the RTT is longer than they last."""
    result = ran(appliance, turns(1, 1), 900)
    assert result.delays.rtt_ns == pytest.approx(900 * MS, abs=10_000)
    assert result.judgement.invalid == ()


def test_connections_are_counted_however_short_they_are(appliance: Appliance) -> None:
    result = ran(appliance, turns(12, 1, 100))
    run = result.program.median
    assert [(one.sent_bytes, one.received_bytes) for one in run.connections] == [(4, 100)] * 12
    assert run.completion_ns / (80 * MS) == pytest.approx(24, abs=0.05)
    assert result.program.bytes == 1200
    assert result.judgement.kind == "handshakes"
    assert "12.0 round trips for the handshakes of 12 connections" in result.judgement.evidence


def test_what_the_frames_show(appliance: Appliance) -> None:
    """Three turns with half a second after each: the handshake and the request are two round trips."""
    result = ran(appliance, turns(1, 3, 1, 0.5))
    frames = result.program.frames
    assert frames
    assert frames.first_byte_ns == pytest.approx(160 * MS, abs=MS)
    # The last acknowledgement of each turn is on the lane for 40 ms of its pause.
    assert frames.quiet_ns == pytest.approx(3 * (500 - 40) * MS, abs=5 * MS)
    assert frames.completion_ns == pytest.approx((4 * 80 + 1500) * MS, abs=5 * MS)
    assert result.judgement.kind == "the program itself"


def test_frames_of_any_protocol_are_seen(appliance: Appliance) -> None:
    """Five echoes, 200 ms apart, of which each is on the lane for 80 ms."""
    result = ran(appliance, {"name": "echoes", "client": "ping -q -c 5 -i 0.2 {server}", "repeat": 1})
    frames = result.program.frames
    assert frames
    assert frames.first_byte_ns is None
    assert frames.completion_ns - frames.quiet_ns == pytest.approx(5 * 80 * MS, abs=MS)
    assert {part.kind for part in result.judgement.shares} >= {"the program itself", "unknown"}


def test_datagrams_beside_a_tcp_connection_are_no_round_trips(appliance: Appliance) -> None:
    settings = {"name": "u", "server": "exec iperf3 -s", "ready": Ready("tcp", "5201"), "repeat": 1}
    result = ran(appliance, {**settings, "client": "iperf3 -u -c {server} -t 3"})
    assert (result.judgement.kind, result.judgement.invalid, result.judgement.advice) == ("unknown", (), "")
    assert result.judgement.limiter == "unknown (most of its bytes were not TCP's)"


def test_the_client_at_the_site_and_the_bytes_on_the_wire(appliance: Appliance) -> None:
    result = ran(appliance, turns(1, 1, 4 * MIB), direction="inbound")
    run = result.program.median
    assert run.payload_received_bytes == 4 * MIB
    assert 4 * MIB * 1.04 < run.received_bytes < 4 * MIB * 1.06
    assert run.sent_bytes < MIB


def test_both_ends_prepare_and_each_run_finds_the_same(appliance: Appliance) -> None:
    settings = {
        "client": "test ! -e ran && touch ran && cat own/seed $PLACE {server}.txt > all && echo {run} {rtt_ms} {rate}",
        "prepare_client": "mkdir own && echo {seed} > own/seed",
        "files": {"sub/a": "text of {client}\n", "{server}.txt": "x"},
        "environment": {"PLACE": "sub/a"},
        "keep": ("all", "own/*"),
        "repeat": 3,
    }  # fmt: skip
    with pytest.raises(MeasureError, match="No such file"):
        run(appliance, settings)
    done = run(appliance, {**settings, "client": settings["client"].replace("{server}", "{{server}}")})
    outputs = [output["out"] for output in done.raw["program"]["outputs"]]
    assert outputs == [f"{n} 80 1000000000\n" for n in range(4)]
    assert done.files["client/run-2/own/seed"] == b"1\n"
    assert done.files["client/run-2/all"].startswith(b"1\ntext of 10.77.0.1\n")


def test_kept_files_and_the_result_come_back_from_the_run_folder(appliance: Appliance, tmp_path: Path) -> None:
    done = run(appliance, {"client": "echo x > log", "keep": ("log",), "repeat": 1})
    one = done.result.spec
    folder = RunFolder.create(tmp_path / "run", {}, Asked((one,), in_lab=False))
    folder.save(done)
    assert folder.repeats(one, 1) == [done.result]
    assert repeated_result.merged(folder.repeats(one, 1)) == done.result
    assert (tmp_path / "run/files" / f"{one.id}.0/client/run-0/log").read_text() == "x\n"


FAILURES = {
    "never ready": ({"server": "sleep 1000", "ready": Ready("tcp", "99"), "client": "true"},
                    r"x: the server was not ready \(tcp:99\) within 60 s; its last line: it printed nothing"),
    "server ends": ({"server": "echo bad config >&2; exit 3", "ready": Ready("tcp", "99"), "client": "true"},
                    r"the server ended with 3 before it was ready \(tcp:99\): bad config; it must stay in the "),
    "no such program": ({"client": "no-such-program"}, "the client ended with 127 in run 1 of 5: .*not found"),
    "third repeat": ({"client": "test {run} -lt 2 || { echo boom >&2; exit 3; }"},
                     "the client ended with 3 in run 3 of 5: boom"),
    "too long": ({"client": "sleep 100", "timeout_ns": 10**9}, r"the client did not end within 1 s \(timeout\)"),
    "prepare": ({"client": "true", "prepare": "echo a; false"}, "the command prepare ended with 1: a"),
    "user": ({"client": "true", "user": "nosuchuser"}, "nosuchuser"),
    "disk": ({"client": "mkdir m; mount -t tmpfs -o size=9k none m; cat /dev/zero > m/big; c=$?; umount m; exit $c"},
             "the client ended with 1 in run 1 of 5: .*No space left on device"),
    "too large to keep": ({"client": "head -c 30000000 /dev/zero > log", "keep": ("log",)},
                          "keep: log: more than 16 MiB: keep fewer files"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_one_clear_line_and_leaves_nothing(appliance: Appliance, case: str) -> None:
    settings, said = FAILURES[case]
    with pytest.raises(MeasureError, match=said):
        run(appliance, {"name": "x", **settings})
    assert appliance.topology() is None


def test_loss_is_what_limits_a_program_that_waits_for_segments_sent_again(appliance: Appliance) -> None:
    result = ran(appliance, turns(1, 60, 1000), 20, loss=0.15)
    assert result.program.median.retransmits > 0
    assert result.judgement.kind == "loss"


def test_a_program_follows_the_cells_congestion_control(appliance: Appliance) -> None:
    done = run(appliance, {"client": "cat /proc/sys/net/ipv4/tcp_congestion_control", "repeat": 1}, cc="reno")
    assert done.raw["program"]["outputs"][0]["out"] == "reno\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_commands_run_as_the_user_that_is_named(appliance: Appliance) -> None:
    done = run(appliance, {"client": "id -un && touch mine", "user": "nobody", "repeat": 1})
    assert done.raw["program"]["outputs"][0]["out"] == "nobody\n"


def test_frames_that_the_tap_lost_give_no_figure(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    class Losing(program_cell.FrameLog):
        def __exit__(self, *why: object) -> None:
            super().__exit__(*why)
            self.dropped = 1

    monkeypatch.setattr(program_cell, "FrameLog", Losing)
    assert ran(appliance, turns(1, 1)).program.frames is None


def test_jitter_holds_in_a_programs_cell_and_the_lanes_schedule_does_not(tmp_path: Path) -> None:
    keys = [{"at": "0s", "rtt": "80ms"}, {"at": "100ms", "rtt": "300ms"}]
    file, client = tmp_path / "evening.yaml", "python3 client.py {server} 1 7 100 0"
    workload = TURNS | {"ready": str(TURNS["ready"]), "client": client, "repeat": 4}
    topology = {
        "name": "evening",
        "hub": "here",
        "lanes": {"site": {"rtt": "80ms", "rate": "1Gbit", "jitter": "2ms"}},
        "schedule": {"start": "now", "tracks": [{"lanes": ["site"], "keys": keys}]},
        "sweep": {"tcp_profile": "default", "workload": workload},
    }
    file.write_text(json.dumps(topology))
    argv = [sys.executable, "-m", "emulator", "sweep", str(file), "--runs", str(tmp_path), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (cell,) = json.loads(done.stdout)["cells"]
    times = [one["completion_ns"] for one in cell["program"]["runs"]]
    # Each way differs by up to 2 ms, the other 5 ms are the start of the client.
    assert times == pytest.approx([8 * 80 * MS] * 4, abs=8 * 2 * 2 * MS + 5 * MS)
    assert max(times) - min(times) > MS
