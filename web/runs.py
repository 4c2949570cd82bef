"""Test runs in the background: one at a time, each a run folder as `longhaul sweep` makes it."""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from emulator import __version__, report, sweep
from emulator.errors import InputError, LonghaulError, MeasureError, RefusedError
from emulator.hosts import profiles
from emulator.model import Lane, Topology
from emulator.results import CellResult, CellSpec, RunFolder

from .runforms import RunForm
from .usecases import UseCases

RUNNING, DONE, STOPPED = "running", "done", "stopped"
TITLE = "Throughput against RTT"
log = logging.getLogger("longhaul.web")


@dataclass(frozen=True)
class Run:
    """A run as it stands: cells asked for, results and failures so far. `trouble` ended it early."""

    id: str
    state: str
    in_lab: bool
    specs: Sequence[CellSpec]
    found: Mapping[str, CellResult]
    failures: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""

    @property
    def left_s(self) -> float:
        """A guess at the time that is left."""
        todo = [s for s in self.specs if s.id not in self.found and s.id not in self.failures]
        return sum(map(sweep.cost_s, todo)) if self.state == RUNNING else 0.0


@dataclass
class _Work:
    """The run that is being executed."""

    id: str
    thread: threading.Thread
    cancelled: threading.Event
    failures: dict[str, str] = field(default_factory=dict)


Runners = Callable[[bool], tuple[sweep.Runner, int]]
"""From "in the lab?" to what executes a cell, and how many cells at once."""


class Runs:
    """The runs in one folder. `set_aside`: a topology that is up may be taken down for the time of a run."""

    def __init__(
        self,
        folder: Path,
        usecases: UseCases,
        runners: Runners,
        say: Callable[[Run], object],
        *,
        set_aside: bool = False,
    ) -> None:
        self._folder, self._usecases, self._runners, self._say = folder, usecases, runners, say
        self._set_aside = set_aside
        self._lock = threading.Lock()
        self._work: _Work | None = None
        self._ended: dict[str, tuple[Mapping[str, str], str]] = {}

    def grid(self, form: RunForm) -> list[CellSpec]:
        """The cells of a request. Raises InputError."""
        base, lanes = self._lanes(form)
        lanes = [sweep.with_bottleneck(lane, form.rate) for lane in lanes]
        if form.rtts is not None:
            lanes = _at(lanes[0], form.rtts)
        algorithms: Sequence[str | None] = form.congestion_controls or (None,)
        known = profiles.load_profiles()
        return sweep.grid(base, lanes, form.profiles, known, form.streams, algorithms, form.duration)

    def start(self, form: RunForm) -> Run:
        """Begin a run. Raises InputError, RefusedError when one is at work or a topology is in the way."""
        specs = self.grid(form)
        with self._lock:
            self._refuse(form.in_lab)
            now = datetime.now(UTC)
            name = now.strftime("%Y%m%d-%H%M%S-%f")[:-3]
            facts = {"created": now.isoformat(timespec="seconds"), "version": __version__}
            folder = RunFolder.create(self._folder / name, facts, specs, form.in_lab)
            self._begin(folder)
        return self.get(name)

    def resume(self, name: str) -> Run:
        """Go on with a run that was stopped; what is finished stays. Raises KeyError, RefusedError."""
        run = self.get(name)
        with self._lock:
            self._refuse(run.in_lab)
            self._begin(RunFolder(self._folder / name))
        return self.get(name)

    def names(self) -> list[str]:
        """All runs, the newest first."""
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted((p.name for p in found if (p / "run.json").exists()), reverse=True)

    def get(self, name: str) -> Run:
        """One run. Raises KeyError."""
        folder = self._at(name)
        specs, in_lab = folder.asked()
        found = folder.finished(specs)
        work = self._work
        if work and work.id == name:
            return Run(name, RUNNING, in_lab, specs, found, dict(work.failures))
        failures, trouble = self._ended.get(name, ({}, ""))
        state = DONE if len(found) + len(failures) >= len(specs) and not trouble else STOPPED
        return Run(name, state, in_lab, specs, found, failures, trouble)

    def remove(self, name: str) -> None:
        """Cancel a run that is at work (cells already begun end first); forget one that has ended. Raises KeyError."""
        folder = self._at(name)
        with self._lock:
            if self._work and self._work.id == name:
                self._work.cancelled.set()
                return
            shutil.rmtree(folder.path)
            self._ended.pop(name, None)

    def report(self, name: str, kind: str) -> str:
        """The tables as Markdown or CSV. Raises KeyError."""
        run = self.get(name)
        results = [run.found[spec.id] for spec in run.specs if spec.id in run.found]
        return report.csv_text(results) if kind == "csv" else markdown(run)

    def states(self) -> dict[str, int]:
        """How many runs there are in each state, without reading them."""
        running = 1 if self._work else 0
        return {RUNNING: running, "ended": len(self.names()) - running}

    def stop(self) -> None:
        """Cancel and wait for what is at work."""
        work = self._work
        if work:
            work.cancelled.set()
            work.thread.join()

    def _lanes(self, form: RunForm) -> tuple[Topology, list[Lane]]:
        if form.lanes is None:
            if form.rtts is None:
                raise InputError.single("say what to measure: rtts, or lanes of the topology", "request", "rtts")
            return Topology("sweep", "hub", (Lane("lane"),)), [Lane("lane")]
        base = self._usecases.topology()
        there = base.sites if base else ()
        if base is None or (unknown := [name for name in form.lanes if name not in there]):
            known = ", ".join(there) or "none, for nothing is up"
            raise InputError.single(
                f"no such lane: there are {known}", "request", "lanes" if base is None else unknown[0]
            )
        if form.rtts is not None and len(form.lanes) != 1:
            raise InputError.single("RTTs are measured on one lane: name one", "request", "lanes")
        return base, [base.lane(name) for name in form.lanes]

    def _refuse(self, in_lab: bool) -> None:
        if self._work:
            raise RefusedError(f"run {self._work.id} is at work: wait for it or cancel it")
        up = None if in_lab or self._set_aside else self._usecases.topology()
        if up:
            raise RefusedError(f"{up.name} is up here: measure in the lab (in_lab), or take it down first")

    def _begin(self, folder: RunFolder) -> None:
        name = folder.path.name
        self._ended.pop(name, None)
        cancelled = threading.Event()
        thread = threading.Thread(target=self._execute, args=(folder, cancelled), name=f"run {name}", daemon=True)
        self._work = _Work(name, thread, cancelled)
        thread.start()

    def _execute(self, folder: RunFolder, cancelled: threading.Event) -> None:
        work, trouble = self._work, ""
        assert work
        aside = None
        try:
            specs, in_lab = folder.asked()
            aside = self._usecases.topology() if self._set_aside and not in_lab else None
            if aside:
                self._usecases.down()
            self._cells(folder, specs, in_lab, work, cancelled)
        except LonghaulError as error:
            trouble = str(error)
        except Exception as error:
            log.exception("run %s", work.id)
            trouble = f"{type(error).__name__}: {error}"
        if aside:
            try:
                self._usecases.up(aside)
            except LonghaulError as error:
                trouble = f"{aside.name} could not be brought up again: {error}"
        self._ended[work.id] = ({}, "cancelled") if cancelled.is_set() else (work.failures, trouble)
        with suppress(KeyError, LonghaulError):
            folder.write("table.md", markdown(self.get(work.id)))
        # From here on the run may be resumed or deleted: nothing is written any more.
        self._work = None
        self._tell(work.id)

    def _cells(
        self, folder: RunFolder, specs: Sequence[CellSpec], in_lab: bool, work: _Work, cancelled: threading.Event
    ) -> None:
        runner, at_once = self._runners(in_lab)

        def unless_cancelled(spec: CellSpec) -> CellResult:
            if cancelled.is_set():
                raise MeasureError("cancelled")
            return runner(spec)

        done = folder.finished(specs)
        todo = [spec for spec in specs if spec.id not in done]
        for outcome in sweep.run_cells(todo, folder, unless_cancelled, at_once, log.info):
            if outcome.result is None:
                work.failures[outcome.spec.id] = outcome.failure
            self._tell(work.id)
        results = folder.finished(specs)
        folder.write_results([results[s.id] for s in specs if s.id in results])

    def _tell(self, name: str) -> None:
        with suppress(KeyError, LonghaulError):
            self._say(self.get(name))

    def _at(self, name: str) -> RunFolder:
        path = self._folder / name
        if not re.fullmatch(r"[0-9]{8}-[0-9]{6}-[0-9]{3}", name) or not (path / "run.json").exists():
            raise KeyError(name)
        return RunFolder(path)


def _at(lane: Lane, rtts_ns: Sequence[int]) -> list[Lane]:
    try:
        return sweep.lanes_at(lane, rtts_ns)
    except ValueError as error:
        raise InputError.single(str(error), "request", "rtts") from None


def markdown(run: Run) -> str:
    """The run's tables and all that must not be overlooked."""
    found = dict(run.found)
    tables = [report.overview(run.specs, found), *report.details(run.specs, found)]
    return report.markdown(TITLE, tables, report.objections(run.specs, found, dict(run.failures)))


def local_runners(in_lab: bool) -> tuple[sweep.Runner, int]:
    """What `longhaul sweep` uses on this machine."""
    if in_lab:
        return sweep.in_lab(sweep.cpus()), len(sweep.cpus())
    return sweep.here(), 1
