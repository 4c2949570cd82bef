"""The cells of a grid executed: separate labs in parallel, one per CPU, or this machine one cell after another."""

from __future__ import annotations

import json
import os
import queue
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from emulator.analysis import statistics
from emulator.errors import InputError, LabError, LabStalled, LabTimeout, LonghaulError, MeasureError, MissingError
from emulator.experiment import grid
from emulator.experiment.cell_result import CellResult, CellSpec
from emulator.experiment.merge import merge
from emulator.experiment.run_folder import Execution, RunFolder

LAB_MEMORY_GIB = 8
MEMORY_PER_BDP = 16
"""Queued packets take up to 1.6 times their bytes, in both directions, and sockets hold as much again at each end."""
LAB_TIMEOUT_S = 900.0

LAB_ALGORITHMS = ("reno", "cubic", "bbr", "htcp")
"""The congestion controls of the lab's kernel (lab/kernel.config)."""

Runner = Callable[[CellSpec], Execution]


@dataclass(frozen=True)
class Outcome:
    """A cell that came to its end: a result, or the failure in words."""

    spec: CellSpec
    result: CellResult | None
    failure: str = ""


def in_order(specs: Sequence[CellSpec], order_seed: int, *, in_lab: bool = False) -> list[CellSpec]:
    """The cells in a random order, so that no trend of the machine looks like one of the grid; the seed is recorded.

    Labs share nothing, and no trend can show there: the longest go first, lest one is left over for a single CPU.
    """
    shuffled = list(specs)
    random.Random(order_seed).shuffle(shuffled)
    return sorted(shuffled, key=lambda spec: grid.cost_s([spec], 1), reverse=True) if in_lab else shuffled


def lab_memory_gib(spec: CellSpec) -> int:
    """What the lab of a cell may use at most."""
    return max(LAB_MEMORY_GIB, -(-MEMORY_PER_BDP * spec.path.bdp_bytes // 2**30))


def in_lab(cpus: Sequence[int]) -> Runner:
    """A runner that boots a lab for every cell, each on a CPU of its own."""
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for cpu in cpus:
        free.put(cpu)

    def run(spec: CellSpec) -> Execution:
        cpu = free.get()
        try:
            answer = lab_answer(spec, cpu)
        finally:
            free.put(cpu)
        return read_answer(spec, *answer)

    return run


def lab_answer(spec: CellSpec, cpu: int | None = None) -> tuple[bytes, bytes]:
    """What the cell's lab printed on stdout and stderr; without `cpu` it takes one that no other lab has."""
    from emulator.lab import boot

    done = boot.capture(
        ["python3", "-P", "-m", "emulator.experiment.run_cell", json.dumps(spec.to_json())],
        cwd=Path(__file__).parents[2], memory=f"{lab_memory_gib(spec)}G", seed=spec.topology.seed, cpu=cpu,
        timeout_s=LAB_TIMEOUT_S,
    )  # fmt: skip
    return done.stdout, done.stderr


def read_answer(spec: CellSpec, stdout: bytes, stderr: bytes) -> Execution:
    """Read what `run_cell` printed as a program. Raises MeasureError with its failure, or with its last words."""
    lines = stdout.decode(errors="replace").strip().splitlines()
    try:
        answer = json.loads(lines[-1])
    except (ValueError, IndexError):
        words = (stderr.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
        raise MeasureError(f"{spec.id}: the cell gave no result; it said: {words}") from None
    if "error" in answer:
        raise MeasureError(f"{spec.id}: {answer['error']}")
    return Execution(CellResult.from_json(answer["result"]), answer["raw"])


def here(*, instead: bool = False) -> Runner:
    """A runner that measures on this machine itself, in namespaces of its own; `instead`: see `cell.execute`."""
    from emulator.control.local import local
    from emulator.experiment import run_cell

    def run(spec: CellSpec) -> Execution:
        with closing(local()) as appliance:
            return run_cell.execute(spec, appliance, instead=instead)

    return run


class Stopped(Exception):
    """A cell that was left before it had enough repeats, because the user asked to stop."""


def measure_cell(
    spec: CellSpec, folder: RunFolder, runner: Runner, most_repeats: int, stop: threading.Event
) -> CellResult:
    """Measure a cell until its mean is known well enough or it had its repeats; what is in the folder counts.

    Every repeat has a seed of its own. Raises Stopped between two repeats, and whatever the runner raises.
    """
    results = folder.repeats(spec, most_repeats)
    while not (results and statistics.enough([r.steady_bytes_per_s for r in results], most_repeats)):
        if stop.is_set():
            raise Stopped
        done = runner(spec.again(len(results)))
        folder.save(done)
        results.append(done.result)
    return merge(results)


def run_cells(
    specs: Sequence[CellSpec],
    folder: RunFolder,
    runner: Runner,
    workers: int,
    say: Callable[[str], None],
    most_repeats: int = 1,
) -> Iterator[Outcome]:
    """Run the cells and yield each as it ends, every repeat saved the moment it is there.

    A cell that fails does not stop the others; a lab or a machine that cannot run any does. After Ctrl-C only the
    measurements at work are finished, then KeyboardInterrupt is raised; a second Ctrl-C abandons them too.
    """
    pool, stop, interrupted = ThreadPoolExecutor(workers), threading.Event(), False
    waiting: dict[Future[CellResult], CellSpec] = {
        pool.submit(measure_cell, spec, folder, runner, most_repeats, stop): spec for spec in specs
    }
    try:
        while waiting:
            try:
                ended = wait(waiting, return_when=FIRST_COMPLETED).done
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                stop.set()
                waiting = {future: spec for future, spec in waiting.items() if not future.cancel()}
                say(f"finishing the {len(waiting)} cells at work; Ctrl-C again abandons them")
                continue
            yield from (one for future in ended if (one := _outcome(waiting.pop(future), future)))
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
    if interrupted:
        raise KeyboardInterrupt


def _outcome(spec: CellSpec, future: Future[CellResult]) -> Outcome | None:
    try:
        return Outcome(spec, future.result())
    except Stopped:
        return None
    except (LabTimeout, LabStalled) as error:
        return Outcome(spec, None, str(error))
    except (LabError, MissingError, InputError):
        raise
    except LonghaulError as error:
        return Outcome(spec, None, str(error))


def cpus() -> list[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))
