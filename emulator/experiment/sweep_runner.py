"""Executes the cells of a grid: in parallel labs, one per CPU, or on this machine one after another."""

from __future__ import annotations

import base64
import json
import os
import queue
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing

from msgspec import Struct

from emulator.errors import InputError, LabError, LabStalled, LabTimeout, LonghaulError, MeasureError, MissingError
from emulator.experiment import grid, lab_programs, repeated_result, results
from emulator.experiment.cell_captures import CellCaptures
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.results import Result
from emulator.experiment.run_folder import Execution, RunFolder
from emulator.hosts.tools.program import ProgramWorkload
from emulator.lab import build_kernel
from emulator.lab.boot_options import MOST_MEMORY_BYTES, STALL_CPU_S, BootOptions
from emulator.lab.lab_root import RootChoice
from emulator.system import lateness

LAB_MEMORY_BYTES = 8 << 30
MEMORY_PER_BDP = 16
"""Queued packets take up to 1.6 times their bytes, in both directions, and sockets hold as much again at each end."""
LAB_TIMEOUT_S = 3600.0
"""Real time. A lab whose clock stands still ends long before; this is for one that a busy machine hardly lets run."""

LAB_STALL_CPU_S = STALL_CPU_S
"""CPU time of a lab whose clock stands still."""

LAB_ALGORITHMS = build_kernel.congestion_controls(build_kernel.STANDARD)
"""The congestion controls of the lab's kernel: all that Linux has."""

IMAGE = RootChoice()
Runner = Callable[[CellSpec], Execution]


class Outcome(Struct, frozen=True):
    """A finished cell: its result, or the failure as text."""

    spec: CellSpec
    result: Result | None
    failure: str = ""


def in_order(specs: Sequence[CellSpec], order_seed: int, *, in_lab: bool = False) -> list[CellSpec]:
    """The cells in a random order, so that a trend of the machine does not look like one of the grid.

    Labs share nothing and show no such trend: there the longest cells go first, so that no CPU works alone at the end.
    The run records the seed.
    """
    shuffled = list(specs)
    random.Random(order_seed).shuffle(shuffled)
    return sorted(shuffled, key=lambda spec: grid.cost_s([spec], 1), reverse=True) if in_lab else shuffled


def lab_memory_bytes(spec: CellSpec) -> int:
    """What the lab of a cell may use at most: whole GiB, within what a lab can have."""
    wanted_gib = -(-MEMORY_PER_BDP * spec.path.bdp_bytes // 2**30)
    return min(max(LAB_MEMORY_BYTES, wanted_gib << 30), MOST_MEMORY_BYTES)


def lab_is_confined() -> bool:
    """Whether this machine's kernel keeps the programs of a cell in a lab from the machine's files (Landlock)."""
    from emulator.lab import landlock

    return landlock.abi() > 0


def in_lab(cpus: Sequence[int], captures: CellCaptures | None = None, choice: RootChoice = IMAGE) -> Runner:
    """A runner that boots a lab for every cell, each on its own CPU."""
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for cpu in cpus:
        free.put(cpu)

    def run(spec: CellSpec) -> Execution:
        cpu = free.get()
        try:
            answer = lab_answer(spec, cpu, captures, choice)
        finally:
            free.put(cpu)
        done = read_answer(spec, *answer)
        return captures.placed(done) if captures else done

    return run


def lab_answer(
    spec: CellSpec, cpu: int | None = None, captures: CellCaptures | None = None, choice: RootChoice = IMAGE
) -> tuple[bytes, bytes]:
    """The output of the cell's lab on stdout and stderr; without `cpu` it takes one that no other lab has.

    Raises LabError.
    """
    from emulator.lab import boot, lab_root

    choice = choice.of_kernel(spec.kernel)
    # The lab can write only to its current folder.
    snap, folder = ([str(captures.snap_bytes)], captures.folder(spec)) if captures else ([], None)
    argv = [lab_root.own_python(choice), "-P", "-m", "emulator.experiment.run_cell", json.dumps(spec.for_lab()), *snap]
    options = BootOptions(
        folder, lab_programs.environment([spec], boot.built(choice=choice)), memory_bytes=lab_memory_bytes(spec),
        seed=spec.topology.seed, cpu=cpu, timeout_s=LAB_TIMEOUT_S, stall_cpu_s=LAB_STALL_CPU_S, own=True,
        counted=spec.counted,
    )  # fmt: skip
    try:
        done = boot.capture(argv, options, choice)
    except LabTimeout:
        raise LabTimeout(
            f"{spec.id}: its lab was not done after {LAB_TIMEOUT_S / 60:g} minutes ({lateness.now()}): choose a "
            "shorter duration or a lower rate, or resume the run when the machine is idle"
        ) from None
    except LabStalled as error:
        raise LabStalled(_stalled(spec, str(error), " ".join(argv))) from None
    return done.stdout, done.stderr


def _stalled(spec: CellSpec, said: str, command: str) -> str:
    """Why a cell's lab stalled. The command is the whole cell as JSON: its name says more."""
    from emulator.lab import boot

    instead = "" if spec.counted else "; or let computing take time: --clock counted"
    why = said.removeprefix(f"{command}: ").replace(command, _told(spec))
    return f"{spec.id}: {why.replace(f'; {boot.INSTEAD}', instead)}"


def _told(spec: CellSpec) -> str:
    """The cell's name, and the commands that it runs where the user gave them."""
    given = spec.workload.program.commands if isinstance(spec.workload, ProgramWorkload) else {}
    return f"{spec.id} ({'; '.join(given.values())})" if given else spec.id


def read_answer(spec: CellSpec, stdout: bytes, stderr: bytes) -> Execution:
    """Parse the output of `run_cell`. Raises MeasureError with its failure, or with the last line that it printed.

    The notes of a failure are the outputs of the program that failed.
    """
    lines = stdout.decode(errors="replace").strip().splitlines()
    try:
        answer = json.loads(lines[-1])
    except (ValueError, IndexError):
        words = (stderr.decode(errors="replace").strip().splitlines() or ["nothing"])[-1]
        raise MeasureError(f"{spec.id}: the cell printed no result, but: {words}") from None
    if "error" in answer:
        failure = MeasureError(f"{spec.id}: {answer['error']}")
        for note in answer.get("notes", ()):
            failure.add_note(note)
        raise failure
    files = {path: base64.b64decode(content) for path, content in answer["files"].items()}
    return Execution(results.from_json(answer["result"]), answer["raw"], files)


def here(*, instead: bool = False, captures: CellCaptures | None = None) -> Runner:
    """A runner that measures on this machine, in its own namespaces; `instead`: see `run_cell.execute`."""
    from emulator.control.local import local
    from emulator.experiment import run_cell

    def run(spec: CellSpec) -> Execution:
        with closing(local()) as appliance:
            to = run_cell.CaptureTo(captures.folder(spec), captures.snap_bytes) if captures else None
            done = run_cell.execute(spec, appliance, instead=instead, captures=to)
        return captures.placed(done) if captures else done

    return run


class Stopped(Exception):
    """The user stopped the run before this cell had enough repeats."""


def measure_cell(spec: CellSpec, folder: RunFolder, runner: Runner, most_repeats: int, stop: threading.Event) -> Result:
    """Measure a cell until its mean is certain enough or its repeats are done; measurements in the folder count.

    Every repeat has its own seed. Raises Stopped between two repeats, and the runner's errors.
    """

    def measure(again: CellSpec) -> Result:
        if stop.is_set():
            raise Stopped
        done = runner(again)
        folder.save(done)
        return done.result

    return repeated(spec, measure, most_repeats, folder.repeats(spec, most_repeats))


def repeated(
    spec: CellSpec, measure: Callable[[CellSpec], Result], most_repeats: int, earlier: Iterable[Result] = ()
) -> Result:
    """Measure a cell after its earlier repeats until its mean is certain enough or its repeats are done."""
    found = list(earlier)
    while not results.enough(found, most_repeats):
        found.append(measure(spec.again(len(found))))
    return repeated_result.merged(found)


def run_cells(
    specs: Sequence[CellSpec],
    folder: RunFolder,
    runner: Runner,
    workers: int,
    say: Callable[[str], None],
    most_repeats: int = 1,
) -> Iterator[Outcome]:
    """Run the cells and yield each when it ends; saves every repeat at once.

    A failed cell does not stop the others; a lab or a machine that can run none does. After Ctrl-C it finishes the
    running measurements and raises KeyboardInterrupt; a second Ctrl-C abandons them.
    """
    pool, stop, interrupted = ThreadPoolExecutor(workers), threading.Event(), False
    waiting: dict[Future[Result], CellSpec] = {
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
                say(f"finishing {len(waiting)} running cells; Ctrl-C again abandons them")
                continue
            yield from (one for future in ended if (one := _outcome(waiting.pop(future), future)))
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
    if interrupted:
        raise KeyboardInterrupt


def _outcome(spec: CellSpec, future: Future[Result]) -> Outcome | None:
    try:
        return Outcome(spec, future.result())
    except Stopped:
        return None
    except (LabTimeout, LabStalled) as error:
        return _failed(spec, error)
    except (LabError, MissingError, InputError):
        raise
    except LonghaulError as error:
        return _failed(spec, error)


def _failed(spec: CellSpec, error: LonghaulError) -> Outcome:
    """The outcome of a cell that failed, with the reason alone: those who read it know the cell."""
    return Outcome(spec, None, str(error).removeprefix(f"{spec.id}: "))


def cpus() -> list[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))
