"""Runs cells on a Dask cluster: its workers boot the labs, and the results have the same bytes as from local labs.

The threads of `sweep_runner.run_cells` wait for the workers instead of local labs. If a worker dies, another one
measures its cell; if none is left, the sweep ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from emulator import __version__
from emulator.errors import LonghaulError, MeasureError, MissingError
from emulator.experiment import sweep_runner
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.lab.lab_root import RootChoice
from emulator.system import struct_json

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

LOCAL = "local"
"""Instead of an address: a cluster in this process, with one worker for each CPU."""
_PATIENCE_S = 10
_LOOK_S, _LONELY_LOOKS = 5, 12
"""A cluster may be a minute without workers: whoever starts them anew needs some time."""


@contextmanager
def farm(scheduler: str, choice: RootChoice = sweep_runner.IMAGE) -> Iterator[tuple[sweep_runner.Runner, int]]:
    """A runner on the cluster at an address such as tcp://host:8786, and how many labs it runs at once.

    Raises MissingError when Dask, the scheduler or its workers are missing.
    """
    with _client(scheduler) as client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE_S)
        except TimeoutError:
            text = f"{scheduler} has no workers: start some with dask worker {scheduler} --nthreads 1"
            raise MissingError(text) from None
        yield _runner(client, choice, scheduler), sum(client.nthreads().values())


def _runner(client: Client, choice: RootChoice, scheduler: str) -> sweep_runner.Runner:
    from distributed import KilledWorker

    root = json.dumps(struct_json.to_plain(choice))

    def run(spec: CellSpec) -> Execution:
        # Impure: Dask must not reuse the answer of an earlier sweep.
        future = client.submit(_answer, __version__, json.dumps(spec.to_json()), root, pure=False)
        try:
            return sweep_runner.read_answer(spec, *_awaited(client, future, scheduler))
        except LonghaulError:
            raise
        except KilledWorker as error:
            raise MeasureError(f"{spec.id}: every worker that ran it died: {error}") from error
        except Exception as error:
            # An error of Dask, or an unexpected failure of a worker.
            text = f"the cluster could not measure {spec.id}: {type(error).__name__}: {error}; sweep --resume goes on"
            raise MissingError(text) from error

    return run


def _awaited(client: Client, future: Future, scheduler: str) -> tuple[bytes, bytes]:
    """The answer of a worker. Raises MissingError when there is none any more, and the worker's errors."""
    lonely = 0
    while lonely < _LONELY_LOOKS:
        try:
            answer: tuple[bytes, bytes] = future.result(timeout=_LOOK_S)
        except TimeoutError:
            if future.done():
                raise
            lonely = 0 if client.nthreads() else lonely + 1
        else:
            return answer
    raise MissingError(
        f"{scheduler} has no workers any more: start some with dask worker {scheduler} --nthreads 1, and go on with "
        "sweep --resume"
    )


@contextmanager
def _client(scheduler: str) -> Iterator[Client]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingError("--scheduler needs Dask: pip install distributed, here and at the workers") from None
    with ExitStack() as stack:
        try:
            address = stack.enter_context(_local_cluster()) if scheduler == LOCAL else scheduler
            client = stack.enter_context(Client(address, timeout=_PATIENCE_S, set_as_default=False))
        except (OSError, ValueError) as error:
            text = f"no Dask scheduler answers at {scheduler} ({error}): start one with dask scheduler"
            raise MissingError(text) from None
        yield client


def _local_cluster() -> LocalCluster:
    """Workers in threads: a lab is a separate process anyway."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=len(sweep_runner.cpus()), threads_per_worker=1, processes=False, dashboard_address=None
    )


def _answer(version: str, spec: str, root: str) -> tuple[bytes, bytes]:
    """Run the cell's lab at the worker and return its output."""
    if version != __version__:
        raise MissingError(f"a worker has Longhaul {__version__}, this is {version}: install the same one there")
    choice = struct_json.from_plain(RootChoice, json.loads(root))
    return sweep_runner.lab_answer(CellSpec.from_json(json.loads(spec)), choice=choice)
