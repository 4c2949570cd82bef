"""The law and the verdict of real programs with a known number of round trips, measured in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.lab_cells import MIB, MS, SMALL, spec

from emulator.analysis import program_law, program_time
from emulator.analysis.program_law import LawPoint, ProgramLaw
from emulator.control.appliance import Appliance
from emulator.experiment import run_cell
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.program_result import ProgramResult
from emulator.hosts import tcp_profiles
from emulator.hosts.tools.program import ProgramWorkload
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.program import Program, Ready
from emulator.model.tcp_profile import Profile
from emulator.report import program_report, program_table

SERVER = """
import socket
server = socket.create_server(("", 7000))
while True:
    connection, _ = server.accept()
    with connection:
        while asked := connection.recv(100):
            connection.sendall(asked[:1] * int(asked[1:] or 1))
"""
CLIENT = """
import socket, sys, time

connections, turns, size, pause_s = map(float, sys.argv[2:])
for _ in range(int(connections)):
    with socket.create_connection((sys.argv[1], 7000)) as connection:
        for _ in range(int(turns)):
            time.sleep(pause_s)
            connection.sendall(b"?%d" % size)
            left = int(size)
            while left:
                left -= len(connection.recv(left))
"""


def program(turns: int, *, connections: int = 1, size: int = 1, pause_s: float = 0.0) -> Program:
    """A client that asks so often, over so many connections one after another, for answers of `size` bytes."""
    return Program(
        name="turns",
        client=f"python3 client.py {{server}} {connections} {turns} {size} {pause_s}",
        server="exec python3 server.py",
        ready=Ready("tcp", "7000"),
        files={"server.py": SERVER, "client.py": CLIENT},
        repeat=2,
    )


def cell(folder: Path, what: Program, rtt_ms: int, profile: Profile | None = None) -> ProgramResult:
    """The result of the program over 1 Gbit/s at this RTT."""
    return executed(folder, replace(spec(1000, rtt_ms, profile), workload=ProgramWorkload(what)))


def executed(folder: Path, one: CellSpec) -> ProgramResult:
    """The result of a cell on a machine of its own."""
    kernel = NetlinkKernel()
    try:
        found = run_cell.execute(one, Appliance(kernel, folder)).result
    finally:
        kernel.close()
    assert isinstance(found, ProgramResult)
    return found


@pytest.fixture(scope="module")
def seven_turns(tmp_path_factory: pytest.TempPathFactory) -> dict[int, ProgramResult]:
    """One handshake and seven turns, at four RTTs."""
    folder = tmp_path_factory.mktemp("turns")
    return {rtt_ms: cell(folder, program(7), rtt_ms) for rtt_ms in (10, 80, 200, 346)}


def points(found: dict[int, ProgramResult]) -> list[LawPoint]:
    """The cells as the report gives them to the law."""
    results = {result.spec.id: result for result in found.values()}
    return [row.point for row in program_report.rows([one.spec for one in results.values()], results)]


def test_a_handshake_and_seven_turns_cost_eight_round_trips(seven_turns: dict[int, ProgramResult]) -> None:
    law = program_law.fit(points({rtt: seven_turns[rtt] for rtt in (10, 80, 346)}))
    assert isinstance(law, ProgramLaw)
    assert law.objection == ""
    assert law.round_trips == pytest.approx(8, abs=0.05)
    assert abs(law.own_s) < 0.01
    left = seven_turns[200]
    said = law.predict(200 * MS, left.spec.path.rate_bps, left.program.bytes)
    assert said.completion_s == pytest.approx(left.figure, rel=0.01), "200 ms was not in the fit"


def test_the_longest_rtt_is_predicted_from_the_shorter_ones(seven_turns: dict[int, ProgramResult]) -> None:
    last = program_law.leave_one_out(points(seven_turns))[-1]
    assert last.point.rtt_ns == 346 * MS
    assert abs(last.error) < 0.01


def test_turns_are_seen_as_round_trips(seven_turns: dict[int, ProgramResult]) -> None:
    far = seven_turns[346].judgement
    assert (far.kind, far.limiter, far.invalid) == (program_time.ROUND_TRIPS, "round trips", ())
    times = {part.kind: part.time_ns / (346 * MS) for part in far.shares}
    assert times[program_time.HANDSHAKES] == pytest.approx(1, abs=0.02)
    assert times[program_time.ROUND_TRIPS] == pytest.approx(7, abs=0.05)
    assert sum(part.time_ns for part in far.shares) == seven_turns[346].program.median.completion_ns


def test_the_table_tells_the_law_below_it(seven_turns: dict[int, ProgramResult]) -> None:
    found = {result.spec.id: result for result in seven_turns.values()}
    (table,) = program_report.details([one.spec for one in found.values()], found)
    assert len(table.rows) == 4
    law, advice = table.below
    assert law.startswith("law: this program costs 8.0")
    assert advice.startswith("largest saving, at 346 ms: more in flight: send requests before the last one's answer")
    assert program_table.csv_text(program_report.rows([one.spec for one in found.values()], found)).count("\n") == 5


def test_a_connection_for_each_request_is_seen_as_handshakes(tmp_path: Path) -> None:
    found = cell(tmp_path, program(1, connections=6), 80)
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.HANDSHAKES, ())
    assert found.figure == pytest.approx(12 * 0.08, rel=0.02)
    assert found.judgement.advice.startswith("keep one connection open (keep-alive) instead of 6")


def test_a_small_window_is_seen_with_its_end(tmp_path: Path) -> None:
    """16 MiB through 1 MiB of receive buffer at the client."""
    found = cell(tmp_path, program(1, size=16 * MIB), 80, replace(SMALL, tcp_wmem=(4096, 64 * 1024, 16 * MIB)))
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.RECEIVE_WINDOW, ())
    assert found.judgement.limiter == "receive window of the client, 1 MiB buffer"
    assert found.judgement.advice.startswith("tcp_rmem max of the client from 1 MiB to 13 MiB, rate x RTT is 9.54 MiB")


def test_a_full_line_is_seen_as_line(tmp_path: Path) -> None:
    found = cell(tmp_path, program(1, size=128 * MIB), 10)
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.LINE, ())
    assert found.judgement.efficiency == pytest.approx(1, abs=0.15)


def test_waiting_is_seen_as_the_programs_own(tmp_path: Path) -> None:
    found = cell(tmp_path, program(5, pause_s=0.2), 10)
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.PROGRAM, ())
    own = next(part.time_ns for part in found.judgement.shares if part.kind == program_time.PROGRAM)
    assert own / 1e9 == pytest.approx(1, abs=0.05)


def test_slow_start_is_seen(tmp_path: Path) -> None:
    """1 MiB at 200 ms: far below rate x RTT."""
    found = cell(tmp_path, program(1, size=MIB), 200)
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.SLOW_START, ())


DATAGRAMS = {
    "server.py": """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("", 7000))
    print("bound", flush=True)
    while True:
        server.sendto(*server.recvfrom(100))
""",
    "client.py": """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    for _ in range(5):
        client.sendto(b"?", (sys.argv[1], 7000))
        client.recv(100)
""",
}


def test_a_program_without_tcp_has_a_law_and_a_verdict(tmp_path: Path) -> None:
    what = replace(program(1), files=DATAGRAMS, ready=Ready("output", "bound"))
    found = {rtt_ms: cell(tmp_path, what, rtt_ms) for rtt_ms in (10, 80, 346)}
    law = program_law.fit(points(found))
    assert isinstance(law, ProgramLaw)
    assert law.round_trips == pytest.approx(5, abs=0.05)
    far = found[346]
    assert (far.program.bytes, far.judgement.efficiency, far.judgement.invalid) == (None, None, ())
    assert far.judgement.kind == program_time.UNKNOWN
    assert far.judgement.evidence.startswith("5.0 round trips of which the kernels count nothing")


def test_at_no_rtt_there_are_no_round_trips(tmp_path: Path) -> None:
    small, large = cell(tmp_path, program(7), 0), cell(tmp_path, program(1, size=16 * MIB), 0)
    assert (small.judgement.kind, small.judgement.invalid) == (program_time.PROGRAM, ())
    assert small.judgement.advice == ""
    assert (large.judgement.kind, large.judgement.invalid) == (program_time.LINE, ())
    assert large.judgement.efficiency == pytest.approx(0.95, abs=0.03)


AT_ONCE = """
import sys, threading, subprocess
each = [subprocess.Popen([sys.executable, "one.py", *sys.argv[1:]]) for _ in range(6)]
sys.exit(max(one.wait() for one in each))
"""
MANY = """
import socket, threading

def serve(connection):
    with connection:
        while asked := connection.recv(100):
            connection.sendall(asked[:1] * int(asked[1:]))

server = socket.create_server(("", 7000))
while True:
    threading.Thread(target=serve, args=[server.accept()[0]], daemon=True).start()
"""


TOGETHER = {"server.py": MANY, "client.py": AT_ONCE, "one.py": CLIENT}


def test_connections_at_the_same_time_cost_one_handshake(tmp_path: Path) -> None:
    """Six connections together, ten turns over each: eleven round trips."""
    found = cell(tmp_path, replace(program(10), files=TOGETHER), 80)
    assert found.figure == pytest.approx(11 * 0.08, rel=0.02)
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.ROUND_TRIPS, ())
    times = {part.kind: part.time_ns / (80 * MS) for part in found.judgement.shares}
    assert times[program_time.HANDSHAKES] == pytest.approx(1, abs=0.1)
    assert times[program_time.ROUND_TRIPS] == pytest.approx(10, abs=0.2)


def test_connections_at_the_same_time_have_one_handshake_to_save(tmp_path: Path) -> None:
    """Six answers of 30 kB: a handshake, a request, and a round trip until the window has grown."""
    found = cell(tmp_path, replace(program(1, size=30_000), files=TOGETHER), 30)
    assert found.figure == pytest.approx(3 * 0.03, abs=0.003)
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.ROUND_TRIPS, ())
    times = {part.kind: part.time_ns / (30 * MS) for part in found.judgement.shares}
    assert times[program_time.HANDSHAKES] == pytest.approx(1, abs=0.05)
    assert found.judgement.advice.startswith(
        "connections that stay open from one run to the next save the handshake: about 6"
    )


def test_loss_is_seen(tmp_path: Path) -> None:
    one = spec(100, 80, loss=0.01)
    found = executed(tmp_path, replace(one, workload=ProgramWorkload(program(1, size=4 * MIB))))
    assert found.program.median.retransmits > 10
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.LOSS, ())
    assert found.judgement.advice.startswith("congestion control bbr instead of cubic")


TWO_WRITES = SERVER.replace(
    "connection.sendall(asked[:1] * int(asked[1:] or 1))",
    "connection.sendall(asked[:1] * 200), connection.sendall(asked[:1] * (int(asked[1:]) - 200))",
)


NODELAY = "TCP_NODELAY at the server, or one write for each message: its last part waits for an acknowledgement"


def test_answers_in_two_writes_want_nodelay_and_take_as_long_then_as_was_said(tmp_path: Path) -> None:
    """The last frame of 30 kB waits until the first write is acknowledged: a round trip more in each of six turns."""
    files = {"server.py": TWO_WRITES, "client.py": CLIENT}
    found = cell(tmp_path, replace(program(6, size=30_000), files=files), 80)
    assert found.figure == pytest.approx(13 * 0.08, rel=0.01)
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.ROUND_TRIPS, ())
    text, _, said = found.judgement.advice.partition(": about ")
    assert text == NODELAY
    files["server.py"] = TWO_WRITES.replace(
        "with connection:", "with connection:\n        connection.setsockopt(6, socket.TCP_NODELAY, 1)"
    )
    after = cell(tmp_path, replace(program(6, size=30_000), files=files), 80)
    assert after.figure == pytest.approx(8 * 0.08, rel=0.01)
    assert float(said.split()[0]) / 1000 == pytest.approx(after.figure, rel=0.02)
    assert "NODELAY" not in after.judgement.advice


def test_small_answers_in_two_writes_want_nodelay(tmp_path: Path) -> None:
    """As above, and the client acknowledges the first write 40 ms late."""
    files = {"server.py": TWO_WRITES, "client.py": CLIENT}
    found = cell(tmp_path, replace(program(6, size=1000), files=files), 80)
    assert found.figure == pytest.approx(13 * 0.08 + 6 * 0.04, rel=0.02)
    assert found.judgement.kind == program_time.ROUND_TRIPS
    assert found.judgement.advice.startswith(NODELAY)


THINKS = MANY.replace("connection.sendall(asked[:1] * int(asked[1:]))", """
            left = 300_000 - len(asked)
            while left > 0:
                left -= len(connection.recv(left))
            time.sleep(5)
            connection.sendall(asked[:1])
""".strip()).replace("import socket", "import time, socket")  # fmt: skip
SENDS = CLIENT.replace('b"?%d" % size', "bytes(300_000)")


def test_a_program_that_waits_is_no_loss_however_many_segments_were_sent_again(tmp_path: Path) -> None:
    """Six uploads of 300 kB at once overflow the buffer; then nothing is on the lane for 5 s."""
    files = {"server.py": THINKS, "client.py": AT_ONCE, "one.py": SENDS}
    one = spec(50, 20, tcp_profiles.DEFAULT)
    found = executed(tmp_path, replace(one, workload=ProgramWorkload(replace(program(1), files=files))))
    run = found.program.median
    assert (run.retransmits > 10, run.timeouts) == (True, 0)
    assert (found.judgement.kind, found.judgement.invalid) == (program_time.PROGRAM, ())
    own = next(part.time_ns for part in found.judgement.shares if part.kind == program_time.PROGRAM)
    assert 4.8 < own / 1e9 <= 5, "an upload that goes on while others are through is not quiet"


UPLOAD = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000)) as connection:
    connection.sendall(bytes(2 << 20))
"""
SINK = """
import socket
server = socket.create_server(("", 7000))
while True:
    connection, _ = server.accept()
    with connection:
        while connection.recv(1 << 20):
            pass
"""


def test_a_client_that_does_not_wait_for_its_data_is_told_so(tmp_path: Path) -> None:
    """2 MiB fit into the send buffer: the client is gone after the handshake."""
    what = replace(program(1), files={"server.py": SINK, "client.py": UPLOAD}, bytes=2 * MIB)
    roomy = Profile("roomy", (4096, 8 * MIB, 8 * MIB), (4096, 8 * MIB, 8 * MIB))
    found = executed(tmp_path, replace(spec(100, 80, roomy), workload=ProgramWorkload(what)))
    assert found.figure == pytest.approx(0.08, rel=0.1)
    assert found.judgement.invalid[0].endswith("the client ended before its data arrived, let it wait for an answer")
