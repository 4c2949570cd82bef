"""Cells with one planted limiter, drawn at random: the same seed draws the same cells."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis import program_time, request_verdict, tcp_path, verdict
from emulator.experiment import grid
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.grid import of_window
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.hosts.tools.program import ProgramWorkload
from emulator.model.impairment import Buffer
from emulator.model.program import Program, Ready
from emulator.model.request_load import RequestLoad
from emulator.model.tcp_profile import Profile
from support.lab_cells import KIB, MBIT, MIB, MS, Spoil, netem, short_of_memory, spec

HEEDING = ("cubic", "reno", "htcp")
"""The lab's congestion controls that take a loss as congestion."""
ALL = (*HEEDING, "bbr")
MOST_BITS = 4e9
"""What a cell may carry at the most: the lab needs a tenth of a CPU second for 1 Gbit."""
MOST_LOSS, LEAST_LOSSES = 0.02, 15
LEAST_BUFFERS = 25
"""Rate x RTT over a small buffer."""
LEAST_SEGMENTS = 60
"""Of rate x RTT: a share of it is still a window of many segments."""
BUSY_LOOPS = 8
"""Beside a cell that the CPU limits."""
CPU_EVERY = 3
"""Of the rounds through all limiters, one in so many has a cell that the CPU limits: its lab takes real time."""
SERVER = """
import socket
server = socket.create_server(("", 7))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    while connection.recv(1 << 20):
        pass
"""
CLIENT = """
import socket, sys, time
address, blocks, size, pause = sys.argv[1], *map(float, sys.argv[2:])
with socket.create_connection((address, 7)) as connection:
    for _ in range(int(blocks)):
        connection.sendall(bytes(int(size)))
        time.sleep(pause)
"""


@dataclass(frozen=True)
class Planted:
    """One cell, its limiter by construction, and what spoils its lane after it is up."""

    number: int
    limiter: str
    spec: CellSpec
    spoil: Spoil | None = None


class _Draw(Struct, frozen=True):
    """What a cell is drawn over."""

    rate_mbit: int
    rtt_ms: int
    cc: str
    direction: str

    @property
    def bdp_bytes(self) -> int:
        return tcp_path.bdp_bytes(self.rate_mbit * MBIT, self.rtt_ms * MS)

    def cell(self, profile: Profile | None = None, **settings: object) -> CellSpec:
        """A cell over this path; without a duration it has that of a sweep: ten slow starts and a hundred RTTs."""
        given = {"cc": self.cc, "direction": self.direction, **settings}
        cell = spec(self.rate_mbit, self.rtt_ms, profile, **given)  # type: ignore[arg-type]
        return cell if "duration_s" in settings else replace(cell, duration_s=grid.duration_s(cell))


def _path(chance: random.Random, algorithms: tuple[str, ...] = ALL) -> _Draw:
    """A path, evenly over the logarithms of rate and RTT, over which a cell of the usual duration costs little."""
    while True:
        rate_mbit = round(10 * 100 ** chance.random())
        rtt_ms = round(4 * 75 ** chance.random())
        one = _Draw(rate_mbit, rtt_ms, chance.choice(algorithms), chance.choice(("outbound", "inbound")))
        enough = one.bdp_bytes >= LEAST_SEGMENTS * tcp_path.mss_bytes(1500)
        if enough and rate_mbit * MBIT * one.cell().duration_s <= MOST_BITS:
            return one


def _line(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    return _path(chance).cell(streams=chance.choice((1, 1, 4))), None


def _receive_window(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    path = _path(chance)
    return path.cell(of_window(round(path.bdp_bytes * chance.uniform(0.1, 0.6)))), None


def _send_buffer(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    path = _path(chance)
    size = max(32 * KIB, round(path.bdp_bytes * chance.uniform(0.1, 0.6)))
    roomy = max(4 * MIB, 4 * path.bdp_bytes)
    return path.cell(Profile("sends", (4096, roomy, roomy), (4096, 16 * KIB, size))), None


KERNELS_OWN = Profile("kernels-own", (4096, 128 * KIB, 6 * MIB), (4096, 16 * KIB, 4 * MIB))
"""The buffers that the lab's kernel has where nobody sets any (the profile `default`)."""
FAR = (
    _Draw(1000, 150, "cubic", "outbound"), _Draw(300, 200, "htcp", "inbound"), _Draw(1000, 200, "bbr", "outbound"),
    _Draw(500, 250, "reno", "outbound"), _Draw(10_000, 300, "cubic", "inbound"),
    _Draw(10_000, 346, "cubic", "outbound"),
)  # fmt: skip
"""Paths on which their send buffer limits. The numbers of these cells are below 0."""


def _loss(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    """Losses that leave a window of a share of rate x RTT, often enough to be no matter of luck."""
    while True:
        path = _path(chance, HEEDING)
        rtt_s, segments = path.rtt_ms / 1000, path.bdp_bytes / tcp_path.mss_bytes(1500)
        window = segments * chance.uniform(0.1, 0.4)
        # The window, in segments, is 1.22 / sqrt(p) (Mathis), and CUBIC's 1.054 (RTT / p)^0.75 where that is larger.
        loss = (tcp_path.MATHIS_C / window) ** 2
        if path.cc == "cubic":
            loss = max(loss, rtt_s / (window / 1.054) ** (4 / 3))
        cell = path.cell(loss=loss)
        if loss <= MOST_LOSS and window * cell.duration_s / rtt_s * loss >= LEAST_LOSSES:
            return cell, None


def _small_buffer(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    """From two packets to 4 ms at the rate, and little beside rate x RTT."""
    while True:
        path = _path(chance, HEEDING)
        least, most = 2 * 1514, path.rate_mbit * MBIT // 8 * 4 // 1000
        size = round(least * (max(most, 2 * least) / least) ** chance.random())
        if path.bdp_bytes >= LEAST_BUFFERS * size:
            return path.cell(buffer=Buffer(bytes=size)), None


def _slow_start(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    """The run ends when the window has not yet doubled as often as the path needs."""
    while True:
        path = replace(_path(chance), rtt_ms=chance.randint(100, 400))
        grows_s = tcp_path.slow_start_ns(path.bdp_bytes, path.rtt_ms * MS, 1500) / tcp_path.NS
        if grows_s >= 1.3:
            return path.cell(duration_s=max(1, int(grows_s / 1.3))), None


def _limit(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    path = _path(chance)
    cell = path.cell()
    needed = path.bdp_bytes // 2 // 1514
    limit = max(4, round(needed * chance.uniform(0.1, 0.5)))
    return replace(cell, direction="outbound"), netem(f"delay {path.rtt_ms * MS // 2}ns limit {limit}")


def _memory(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    path = _path(chance)
    return path.cell(), short_of_memory(max(8, round(path.bdp_bytes / 4096 * chance.uniform(0.1, 0.4))))


def _offered(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    """Requests that are due less often than the places and the line could answer them."""
    path = _path(chance)
    load = RequestLoad(4, answer_bytes=chance.choice((256, 1024, 8192)), request_bytes=256)
    most = min(4 * 1000 / path.rtt_ms, path.rate_mbit * MBIT / 8 / (load.answer_bytes + 300)) / 3
    load = replace(load, offered_per_s=round(most * chance.uniform(0.1, 0.5), 2), count=300)
    return replace(path.cell(), workload=RequestsWorkload(load)), None


def _own_waits(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    """A program that sends blocks, and does something else between them for longer than a block needs."""
    path = _path(chance)
    size = round(path.bdp_bytes * chance.uniform(0.05, 0.5))
    pause_s = chance.uniform(4, 12) * path.rtt_ms / 1000
    program = Program(
        "pauses", f"python3 client.py {{server}} 10 {size} {pause_s:.6f}", "exec python3 server.py",
        Ready("output", "^listening"), repeat=1, files={"server.py": SERVER, "client.py": CLIENT},
    )  # fmt: skip
    return replace(path.cell(), workload=ProgramWorkload(program)), None


def _cpu(chance: random.Random) -> tuple[CellSpec, Spoil | None]:
    """A fast line, in a lab whose clock counts computing, beside programs that want its only core (`BUSY_LOOPS`)."""
    roomy = Profile("roomy", (4096, 16 * MIB, 16 * MIB), (4096, 16 * MIB, 16 * MIB))
    cell = spec(chance.randint(20, 90) * 1000, chance.randint(0, 1), roomy, cc=chance.choice(ALL), duration_s=2)
    return replace(cell, counted=True), None


OFFERED, OWN_WAITS = request_verdict.OFFERED, program_time.PROGRAM
LOSS, BUFFER = "congestion window (loss)", "congestion window (buffer drops)"
LIMIT, MEMORY = "emulator (limit)", "emulator (memory)"
PLANTS: dict[str, Callable[[random.Random], tuple[CellSpec, Spoil | None]]] = {
    verdict.RECEIVE_WINDOW: _receive_window,
    verdict.SEND_BUFFER: _send_buffer,
    LOSS: _loss,
    BUFFER: _small_buffer,
    verdict.LINE: _line,
    verdict.SLOW_START: _slow_start,
    OFFERED: _offered,
    OWN_WAITS: _own_waits,
    LIMIT: _limit,
    MEMORY: _memory,
    verdict.CPU: _cpu,
}
"""How a cell of each limiter is drawn; the application has two, as users who ask rarely and as a program that waits."""


def draw(seed: int, number: int) -> Planted:
    """The cell of this number, whatever else is drawn; below 0 it is one of FAR."""
    if number < 0:
        return Planted(number, verdict.SEND_BUFFER, FAR[number].cell(KERNELS_OWN, duration_s=20))
    limiter = _ROUNDS[number % len(_ROUNDS)]
    cell, spoil = PLANTS[limiter](random.Random(f"{seed}/{number}"))
    return Planted(number, limiter, replace(cell, topology=replace(cell.topology, seed=seed + number)), spoil)


_ROUNDS = [*(list(PLANTS)[:-1] * CPU_EVERY), verdict.CPU]


def drawn(seed: int, count: int) -> list[Planted]:
    """The first cells of a seed: each limiter in turn."""
    return [draw(seed, number) for number in range(count)]


def far() -> list[Planted]:
    """The cells of FAR, which are the same for each seed."""
    return [draw(0, number) for number in range(-len(FAR), 0)]
