"""Test runs in the background: one at a time, each a run folder as `longhaul sweep` makes it."""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from emulator import __version__
from emulator.errors import InputError, LonghaulError, Mistake, RefusedError, no_such
from emulator.experiment import grid, lab_programs, sweep_runner
from emulator.experiment.cell_captures import FOLDER as CAPTURES
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.results import Result
from emulator.experiment.run_folder import Asked, Execution, RunFolder
from emulator.hosts import tcp_profiles
from emulator.hosts.tools import machine_facts
from emulator.model.sweep_axes import Axes
from emulator.model.topology import Lane, Topology
from emulator.report import remarks, write
from emulator.report.table_kinds import tables_of
from emulator.system import bounded_file
from web import dated_names
from web.api.run_form import RunForm
from web.service import UseCases

RUNNING, DONE, STOPPED = "running", "done", "stopped"
DELETED = "deleted"
"""The state in which watchers see a run for the last time: without cells."""
Progress = Callable[[str, int, int], None]
"""Called with (step, done, total) while a build runs."""
log = logging.getLogger("longhaul.web")


class Run(Struct, frozen=True):
    """The state of a run: its cells, and the results and failures so far. `trouble` is the error that ended it.

    `building` is what is built for its labs at present; "" when nothing is. `name` is what a user
    calls it, if anything.
    """

    id: str
    state: str
    in_lab: bool
    specs: Sequence[CellSpec]
    found: Mapping[str, Result]
    failures: Mapping[str, str] = {}
    trouble: str = ""
    building: str = ""
    name: str = ""

    @property
    def left_s(self) -> float:
        """An estimate of the time left."""
        todo = [s for s in self.specs if s.id not in self.found and s.id not in self.failures]
        return grid.cost_s(todo, 1, in_lab=self.in_lab) if self.state == RUNNING else 0.0


@dataclass
class _Work:
    """The running run."""

    id: str
    thread: threading.Thread
    cancelled: threading.Event
    failures: dict[str, str] = field(default_factory=dict)
    building: str = ""


Runners = Callable[[Asked, Progress], tuple[sweep_runner.Runner, int]]
"""Builds what the labs of a run lack; returns the runner of a cell, and the number of cells at once."""


class Runs:
    """The runs in one folder. `order_seed` draws the seed of a new run's order.

    `set_aside`: a cell of no lane that is up takes the place of all lanes (see `local_runners`).
    """

    def __init__(
        self,
        folder: Path,
        usecases: UseCases,
        runners: Runners,
        say: Callable[[Run], object],
        *,
        set_aside: bool = False,
        order_seed: Callable[[], int] = lambda: secrets.randbelow(2**32),
    ) -> None:
        self._order_seed = order_seed
        self._folder, self._usecases, self._runners, self._say = folder, usecases, runners, say
        self._set_aside = set_aside
        self._lock = threading.Lock()
        self._saying = threading.Lock()
        """Held while a run is read and said: else watchers could hear an older state last."""
        self._work: _Work | None = None
        self._ended: dict[str, tuple[Mapping[str, str], str]] = {}
        self._drawing, self._drawn = threading.Lock(), dict[str, tuple[int, int, str]]()

    def grid(self, form: RunForm) -> list[CellSpec]:
        """The cells of a request. Raises InputError."""
        axes = form.axes()
        placed = grid.placed(self._base(axes), axes.lane, _by_field, in_lab=form.in_lab)
        here = None if placed.hub_host else machine_facts.algorithms([*axes.cc, *form.controls])
        algorithms = sweep_runner.LAB_ALGORITHMS if form.in_lab else here
        return grid.cells(placed, axes, tcp_profiles.load_profiles(), _by_field, algorithms, form.loads)

    def start(self, form: RunForm) -> Run:
        """Start a run. Raises InputError, and RefusedError when a run is active or a topology is in the way."""
        specs = self.grid(form)
        with self._lock:
            now = datetime.now(UTC)
            name = dated_names.free(self._folder, now)
            with self._admitted(name, form.in_lab, specs):
                facts = {"created": now.isoformat(timespec="seconds"), "version": __version__}
                asked = _asked(specs, form, self._order_seed())
                folder = RunFolder.create(self._folder / name, facts, asked, form.name)
                self._begin(folder)
        return self.get(name)

    def resume(self, name: str) -> Run:
        """Resume a stopped run; finished cells stay. Raises KeyError, RefusedError."""
        run = self.get(name)
        with self._lock, self._admitted(name, run.in_lab, run.specs):
            self._begin(RunFolder(self._folder / name))
        return self.get(name)

    def names(self) -> list[str]:
        """All runs, the newest first."""
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted((p.name for p in found if (p / "run.json").exists()), reverse=True)

    def titles(self) -> dict[str, str]:
        """By id, the names of those runs that have one, the newest first."""
        named = {id: RunFolder(self._folder / id).name() for id in self.names()}
        return {id: name for id, name in named.items() if name}

    def rename(self, name: str, title: str) -> Run:
        """Give a run another name, also while it is active; an empty one removes it. Raises KeyError, MissingError."""
        with self._lock:
            self._at(name).rename(title)
        self._report(name)
        return self.get(name)

    def get(self, name: str) -> Run:
        """One run. Raises KeyError."""
        folder = self._at(name)
        # Read before the results: a run that has ended by now has all of them on disk.
        work = self._work
        failures, trouble = self._ended.get(name, ({}, ""))
        asked = folder.asked()
        specs, in_lab, found, title = asked.specs, asked.in_lab, folder.finished(asked), folder.name()
        if work and work.id == name:
            return Run(name, RUNNING, in_lab, specs, found, dict(work.failures), building=work.building, name=title)
        state = DONE if len(found) + len(failures) >= len(specs) and not trouble else STOPPED
        return Run(name, state, in_lab, specs, found, failures, trouble, name=title)

    def cancel(self, name: str) -> Run:
        """Cancel a run; its running cells finish first. One that has ended stays as it is. Raises KeyError."""
        work = self._work
        if work and work.id == name:
            work.cancelled.set()
        return self.get(name)

    def remove(self, name: str) -> None:
        """Delete a run that has ended. Raises KeyError, and RefusedError while it is active."""
        folder = self._at(name)
        with self._lock, self._drawing:  # a page that is drawn would else be written into a folder that goes
            if self._work and self._work.id == name:
                raise RefusedError(f"run {name} is active: cancel it, then delete it once it has ended")
            shutil.rmtree(folder.path)
            self._ended.pop(name, None)
            self._drawn.pop(name, None)
        with self._saying:
            self._say(Run(name, DELETED, False, (), {}))

    def report(self, name: str, kind: str) -> str:
        """The run as Markdown, CSV, HTML or JSON. Raises KeyError."""
        run = self.get(name)
        results = [run.found[spec.id] for spec in run.specs if spec.id in run.found]
        match kind:
            case "csv":
                return tables_of(run.specs).csv_text(run.specs, run.found)
            case "json":
                return json.dumps({"run": name, "cells": [result.to_json() for result in results]}, indent=1) + "\n"
            case "html":
                return self._page(run)
        return markdown(run)

    def _page(self, run: Run) -> str:
        """report.html, drawn again only when there are new results."""
        key = (len(run.found), len(run.failures), run.name)
        with self._drawing:
            folder = self._at(run.id)
            if self._drawn.get(run.id) != key:
                write.page(folder, run.specs, run.found, _objections(run))
                self._drawn[run.id] = key
            return bounded_file.read_text(folder.path / "report.html", bounded_file.RUN)

    def capture(self, name: str, file: str) -> BinaryIO:
        """A file of captured frames, by its path in the run folder: one that a result of the run names, and no link.

        Raises KeyError.
        """
        run, folder = self.get(name), self._at(name).path
        if file not in {one.name for result in run.found.values() for one in result.captures}:
            raise KeyError(file)
        path = folder / file
        # A program of the lab may have put a link in its place: its folder was the cell's to write.
        if path.parent.resolve().parent != (folder / CAPTURES).resolve():
            raise KeyError(file)
        try:
            return bounded_file.opened(path, bounded_file.CAPTURE)
        except OSError as error:
            raise KeyError(file) from error

    def states(self) -> dict[str, int]:
        """The number of runs in each state, without reading them."""
        running = 1 if self._work else 0
        return {RUNNING: running, "ended": len(self.names()) - running}

    def stop(self) -> None:
        """Cancel the active run and wait for its end."""
        with self._lock:  # a run that begins has its thread started by then
            work = self._work
        if work:
            work.cancelled.set()
            work.thread.join()

    def _base(self, axes: Axes) -> Topology:
        if not axes.lane:
            if not axes.rtt:
                raise InputError.single(
                    "there is nothing to measure: use rtt, or lane with a lane of the topology", "request", "rtt"
                )
            return Topology("sweep", "hub", (Lane("lane"),))
        base = self._usecases.topology()
        there = base.sites if base else ()
        unknown = [name for name in axes.lane if name not in there]
        if base is None or unknown:
            raise InputError([Mistake("request", "lane", no_such("lane", name, there)) for name in unknown])
        if axes.rtt and len(axes.lane) != 1:
            raise InputError.single("RTTs need a single lane: name one lane", "request", "lane")
        return base

    @contextmanager
    def _admitted(self, name: str, in_lab: bool, specs: Sequence[CellSpec]) -> Iterator[None]:
        """Under the lock: refuse a run that something is in the way of, else begin it in the block. Outside the lab it
        has its turn at the lanes."""
        if self._work:
            raise RefusedError(f"run {self._work.id} is active: wait for its end, or cancel it")
        if in_lab:
            yield
            return
        self._usecases.run_turn.begin(name)
        try:
            over_the_lanes = all(spec.topology.hub_host for spec in specs)
            if not (self._set_aside or over_the_lanes) and (up := self._usecases.topology()):
                raise RefusedError(f"{up.name} is up here: measure in the lab (in_lab), or bring it down first")
            yield
        except BaseException:
            self._usecases.run_turn.end(name)
            raise

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
        try:
            self._report(work.id)
            self._cells(folder, folder.asked(), work, cancelled)
            trouble = "cancelled" if cancelled.is_set() and self._has_cells_left(folder, work) else ""
        except LonghaulError as error:
            trouble = str(error)
        except Exception as error:
            log.exception("run %s", work.id)
            trouble = f"{type(error).__name__}: {error}"
        self._ended[work.id] = (work.failures, trouble)
        with suppress(KeyError, LonghaulError):
            folder.write("table.md", markdown(self.get(work.id)))
        # From here on the run may be resumed or deleted: this thread writes no more.
        self._usecases.run_turn.end(work.id)
        self._work = None
        self._report(work.id)

    def _cells(self, folder: RunFolder, asked: Asked, work: _Work, cancelled: threading.Event) -> None:
        runner, at_once = self._runners(asked, self._builder(work))
        work.building = ""

        def unless_cancelled(spec: CellSpec) -> Execution:
            if cancelled.is_set():
                raise sweep_runner.Stopped
            return runner(spec)

        done = folder.finished(asked)
        missing = [spec for spec in asked.specs if spec.id not in done]
        todo = sweep_runner.in_order(missing, asked.order_seed, in_lab=asked.in_lab)
        for outcome in sweep_runner.run_cells(todo, folder, unless_cancelled, at_once, log.info, asked.most_repeats):
            if outcome.result is None:
                work.failures[outcome.spec.id] = outcome.failure
            self._report(work.id)
        results = folder.finished(asked)
        folder.write_results([results[s.id] for s in asked.specs if s.id in results])

    def _builder(self, work: _Work) -> Progress:
        """Reports a build to the watchers, each percent once."""
        steps: dict[str, str] = {}

        def progress(step: str, done: int, total: int) -> None:
            steps.pop(step, None)
            if done < total:
                steps[step] = f"{step} ({100 * done // total} %)" if total > 1 else step
            said = ", ".join(steps.values())
            if said != work.building:
                work.building = said
                self._report(work.id)

        return progress

    def _has_cells_left(self, folder: RunFolder, work: _Work) -> bool:
        """Whether cells have neither a result nor a failure."""
        asked = folder.asked()
        return len(folder.finished(asked)) + len(work.failures) < len(asked.specs)

    def _report(self, name: str) -> None:
        with self._saying, suppress(KeyError, LonghaulError):
            self._say(self.get(name))

    def _at(self, name: str) -> RunFolder:
        path = self._folder / name
        if not dated_names.PATTERN.fullmatch(name) or not (path / "run.json").exists():
            raise KeyError(name)
        return RunFolder(path)


def _by_field(axis: str) -> tuple[str, str]:
    """Where an axis stands in a request, as `where` and `path` of a mistake."""
    return "request", axis


def markdown(run: Run) -> str:
    """The run's tables, problems and notes as Markdown."""
    return write.markdown(run.specs, run.found, _objections(run))


def _objections(run: Run) -> list[str]:
    return remarks.objections(run.specs, run.found, dict(run.failures))


def _asked(specs: Sequence[CellSpec], form: RunForm, order_seed: int) -> Asked:
    """What a run of these cells must do; its labs get the packages of its program."""
    asked = Asked(tuple(specs), form.in_lab, form.most_repeats, order_seed)
    return replace(asked, root=lab_programs.with_packages(specs, asked.root)) if form.in_lab else asked


def local_runners(asked: Asked, progress: Progress, *, instead: bool = False) -> tuple[sweep_runner.Runner, int]:
    """What `longhaul sweep` uses on this machine; `instead` of lanes that are up, which come back after each cell.

    Raises LabError when the labs cannot be built, and MissingError that names every program that is not there.
    """
    if asked.in_lab:
        lab_programs.built(asked.specs, asked.root, progress)
        cpus = sweep_runner.cpus()
        return sweep_runner.in_lab(cpus, choice=asked.root), len(cpus)
    return sweep_runner.here(instead=instead), 1
