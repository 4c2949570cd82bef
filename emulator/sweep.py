"""A grid of cells and its execution: separate labs in parallel, one per CPU, or this machine one cell after another."""

from __future__ import annotations

import json
import os
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from emulator import analysis
from emulator.analysis import NS
from emulator.errors import InputError, LabError, LabStalled, LabTimeout, LonghaulError, MeasureError, MissingError
from emulator.hosts import profiles
from emulator.model import Impairment, Lane, Profile, Topology
from emulator.results import CellResult, CellSpec, RunFolder

SHORTEST_S, LONGEST_S = 10, 40
SLOW_STARTS, ROUND_TRIPS = 10, 100
LAB_MEMORY_GIB = 8
MEMORY_PER_BDP = 16
"""Queued packets take up to 1.6 times their bytes, in both directions, and sockets hold as much again at each end."""
LAB_TIMEOUT_S = 900.0

Runner = Callable[[CellSpec], CellResult]


@dataclass(frozen=True)
class Outcome:
    """A cell that came to its end: a result, or the failure in words."""

    spec: CellSpec
    result: CellResult | None
    failure: str = ""


def lanes_at(lane: Lane, rtts_ns: Iterable[int]) -> list[Lane]:
    """The lane at each of these RTTs."""
    return [lane.with_rtt(rtt_ns) for rtt_ns in rtts_ns]


def on_hosts(topology: Topology, lanes: Sequence[Lane]) -> tuple[Topology, list[Lane]]:
    """The same measured between the machines that are named in it. Raises InputError when a lane names none.

    Every lane keeps its address, which would be another in a topology of this lane alone.
    """
    if without := [lane.name for lane in lanes if not lane.host]:
        raise InputError.single(f"{', '.join(without)}: no host is given; add one, or choose other lanes", "--lane")
    return topology, [replace(lane, address=topology.address(lane.name).ip) for lane in lanes]


def in_namespaces(topology: Topology, lanes: Sequence[Lane]) -> tuple[Topology, list[Lane]]:
    """The same as virtual lanes between namespaces of ours."""
    virtual = [replace(lane, ports=None, host=None) for lane in topology.lanes]
    chosen = {lane.name for lane in lanes}
    return replace(topology, lanes=tuple(virtual), hub_host=None), [lane for lane in virtual if lane.name in chosen]


def with_bottleneck(lane: Lane, rate_bps: int | None) -> Lane:
    """The lane limited both ways: by `rate_bps`, else by its own rate, else the line's."""

    def limited(direction: Impairment) -> Impairment:
        if rate_bps is not None:
            return replace(direction, rate_bps=rate_bps)
        return direction if direction.rate_bps else replace(direction, rate_bps=lane.line_rate_bps)

    return replace(lane, outbound=limited(lane.outbound), inbound=limited(lane.inbound))


def duration_s(lane: Lane, profile: Profile) -> int:
    """Long enough for the slow start not to matter: ten times it, and a hundred round trips; 10 to 40 s."""
    rate_bps = lane.outbound.rate_bps or lane.line_rate_bps
    bdp = analysis.bdp_bytes(rate_bps, lane.rtt_ns)
    window = min(2 * bdp, profile.tcp_rmem[2]) if profile.tcp_rmem else 2 * bdp
    slow_start_ns = analysis.slow_start_ns(window, lane.rtt_ns, lane.mtu)
    wanted_ns = max(SLOW_STARTS * slow_start_ns, ROUND_TRIPS * lane.rtt_ns)
    return min(LONGEST_S, max(SHORTEST_S, -(-wanted_ns // NS)))


def grid(
    base: Topology,
    lanes: Sequence[Lane],
    profile_names: Sequence[str],
    known: Mapping[str, Profile],
    streams: Sequence[int],
    algorithms: Sequence[str | None],
    fixed_duration_s: int | None = None,
) -> list[CellSpec]:
    """Every combination, RTT by RTT. Raises InputError on an unknown profile."""
    specs = []
    for lane in lanes:
        rate_bps = lane.outbound.rate_bps or lane.line_rate_bps
        buffer = lane.outbound.buffer
        buffer_bytes = buffer.to_bytes(rate_bps, lane.mtu + analysis.ETHERNET_HEADER_BYTES) if buffer else None
        one_lane = replace(base, lanes=(lane,))
        for name in profile_names:
            profile = profiles.choose(name, known, rate_bps, lane.rtt_ns, buffer_bytes)
            lasts_s = fixed_duration_s or duration_s(lane, profile)
            specs += [CellSpec(one_lane, profile, n, algorithm, lasts_s) for n in streams for algorithm in algorithms]
    if twice := {s.id for s in specs if sum(s.id == other.id for other in specs) > 1}:
        raise InputError.single(f"named twice: {', '.join(sorted(twice))}", "sweep")
    return specs


def cost_s(spec: CellSpec) -> float:
    """A guess at how long the cell takes: what it carries decides. Only the order and the time left rest on it."""
    return 3.0 + spec.expected_bytes_per_s * spec.duration_s / 3e9


def lab_memory_gib(spec: CellSpec) -> int:
    """What the lab of a cell may use at most."""
    return max(LAB_MEMORY_GIB, -(-MEMORY_PER_BDP * spec.path.bdp_bytes // 2**30))


def in_lab(cpus: Sequence[int]) -> Runner:
    """A runner that boots a lab for every cell, each on a CPU of its own."""
    from emulator.lab import boot

    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for cpu in cpus:
        free.put(cpu)

    def run(spec: CellSpec) -> CellResult:
        cpu = free.get()
        try:
            done = boot.capture(
                ["python3", "-m", "emulator.cell", json.dumps(spec.to_json())],
                cwd=Path(__file__).parent.parent, memory=f"{lab_memory_gib(spec)}G", seed=spec.topology.seed, cpu=cpu,
                timeout_s=LAB_TIMEOUT_S,
            )  # fmt: skip
        finally:
            free.put(cpu)
        return read_answer(spec, done.stdout, done.stderr)

    return run


def read_answer(spec: CellSpec, stdout: bytes, stderr: bytes) -> CellResult:
    """What `python3 -m emulator.cell` printed. Raises MeasureError with its failure, or with its last words."""
    lines = stdout.decode(errors="replace").strip().splitlines()
    try:
        answer = json.loads(lines[-1])
    except (ValueError, IndexError):
        words = (stderr.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
        raise MeasureError(f"{spec.id}: the cell gave no result; it said: {words}") from None
    if "error" in answer:
        raise MeasureError(f"{spec.id}: {answer['error']}")
    return CellResult.from_json(answer)


def here() -> Runner:
    """A runner that measures on this machine itself, in namespaces of its own."""
    from emulator import cell
    from emulator.appliance import local

    return lambda spec: cell.execute(spec, local())


def run_cells(
    specs: Sequence[CellSpec], folder: RunFolder, runner: Runner, workers: int, say: Callable[[str], None]
) -> Iterator[Outcome]:
    """Run the cells, the costliest first, and yield each as it ends, saved already.

    A cell that fails does not stop the others; a lab or a machine that cannot run any does. After Ctrl-C only the
    cells at work are finished, then KeyboardInterrupt is raised; a second Ctrl-C abandons them too.
    """
    pool = ThreadPoolExecutor(workers)
    ordered = sorted(specs, key=cost_s, reverse=True)
    waiting: dict[Future[CellResult], CellSpec] = {pool.submit(runner, spec): spec for spec in ordered}
    interrupted = False
    try:
        while waiting:
            try:
                ended = wait(waiting, return_when=FIRST_COMPLETED).done
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                waiting = {future: spec for future, spec in waiting.items() if not future.cancel()}
                say(f"finishing the {len(waiting)} cells at work; Ctrl-C again abandons them")
                continue
            for future in ended:
                yield _outcome(waiting.pop(future), future, folder)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if interrupted:
        raise KeyboardInterrupt


def _outcome(spec: CellSpec, future: Future[CellResult], folder: RunFolder) -> Outcome:
    try:
        result = future.result()
    except (LabTimeout, LabStalled) as error:
        return Outcome(spec, None, str(error))
    except (LabError, MissingError, InputError):
        raise
    except LonghaulError as error:
        return Outcome(spec, None, str(error))
    folder.save(result)
    return Outcome(spec, result)


def cpus() -> list[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))
