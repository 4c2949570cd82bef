"""Measures cells for tests as `longhaul sweep --in-lab` does: the same options, the same errors, each cell once."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Unpack

import pytest

from emulator.errors import (
    InputError,
    LabError,
    LabStalled,
    LabTimeout,
    LonghaulError,
    MissingError,
    Mistake,
    no_such,
)
from emulator.pytest_plugin.values import ONE_VALUE, LonghaulCell, LonghaulLane, LonghaulLaw, LonghaulProgram

if TYPE_CHECKING:
    from emulator.experiment.cell_spec import CellSpec
    from emulator.experiment.run_folder import Asked, Execution
    from emulator.lab.lab_root import RootChoice

LAB_OPTIONS = ("--with", "--root", "--host-root", "--kernel-config", "--clock", "--seed", "--profiles")
"""What the ini option `longhaul_lab` may hold."""
DOCTOR = "longhaul doctor tells what runs on this machine, and the command that fixes what does not"
NEEDS_LANE = 'no lane: give lane=lane(rtt="80ms"), or mark the test with @pytest.mark.longhaul(rtt=[...])'
PACKAGES = 'in a test suite: longhaul_lab = "--with PACKAGE" or "--host-root" in pytest\'s configuration'
ONE_EACH = f"{{}} cells: {ONE_VALUE}"


@dataclass(repr=False)
class LonghaulLab:
    """The labs of one test session. Equal cells are measured once, because they are exact and repeatable.

    `options` are those of `longhaul_lab`, `project` the root of the tests. A lab that cannot run here skips a test with
    `skips`, and fails it without. `shown` lets a build of the lab print through pytest's capture.
    """

    options: tuple[str, ...]
    project: Path
    skips: bool
    shown: Callable[[], AbstractContextManager[None]]
    known: dict[tuple[str, RootChoice], Execution] = field(default_factory=dict)

    def arguments(self, lane: LonghaulLane, program: LonghaulProgram) -> list[str]:
        """The arguments of `longhaul sweep` for this program over this lane. Raises TypeError as Python does."""
        known = tuple(LonghaulProgram.__annotations__)
        if unknown := sorted(program.keys() - set(known)):
            raise TypeError(no_such("keyword argument", unknown[0], ("lane", "check", *known)))
        if "client" not in program:
            raise TypeError("the keyword argument 'client' is missing: it is the command that is measured")
        folder = self.project / program.get("project", "")
        file = [str(self.project / lane.file)] if lane.file else []
        argv = [*file, "--in-lab", *self.options, "--project", str(folder), *lane.options()]
        for name, value in program.items():
            if name != "project" and value not in ("", None):
                argv += [f"--{name.replace('_', '-')}", str(value)]
        return argv

    def cells(self, argv: Sequence[str]) -> Iterator[LonghaulCell]:
        """Measure the cells that the arguments ask for, in labs side by side. Raises what `longhaul sweep` reports."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Those of libraries are not the test's.
            from emulator.experiment import sweep_runner
        asked = self._asked(argv)
        self._build(asked)
        command = shlex.join(["longhaul", "sweep", *argv])
        with ThreadPoolExecutor(len(sweep_runner.cpus())) as pool:
            for done in pool.map(lambda spec: self._measured(spec, asked.root), asked.specs):
                yield cell_of(done, command)

    def _asked(self, argv: Sequence[str]) -> Asked:
        """What the command line of these arguments asks for. Raises InputError with every mistake."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from emulator.cli.sweep import sweep
            from emulator.cli.sweep_options import asked_for
        import click

        check_lab_options(self.options)
        try:
            with sweep.make_context("longhaul sweep", list(argv)) as context:
                return asked_for(context, context.params)[1]
        except click.ClickException as error:
            param = error.param if isinstance(error, click.BadParameter) else None
            raise InputError.single(error.format_message(), param.opts[0] if param else "") from None

    def _build(self, asked: Asked) -> None:
        from emulator.cli.build_progress import build_progress
        from emulator.experiment import lab_programs
        from emulator.lab import build

        if build.ready(asked.root):
            lab_programs.built(asked.specs, asked.root, lambda *_: None)
            return
        with self.shown(), build_progress() as building:
            lab_programs.built(asked.specs, asked.root, building)

    def _measured(self, spec: CellSpec, choice: RootChoice) -> Execution:
        from emulator.experiment import sweep_runner

        key = (json.dumps(spec.to_json(), sort_keys=True), choice)
        if key not in self.known:
            self.known[key] = sweep_runner.read_answer(spec, *sweep_runner.lab_answer(spec, choice=choice))
        return self.known[key]


@dataclass(repr=False)
class LonghaulRun:
    """The fixture `run`: measures a program over a lane and returns its cell; `law` does so over several RTTs.

    `lane` is that of the test's marker, None without one. `seen` collects the cells, for the report of a failed test.
    """

    lab: LonghaulLab
    lane: LonghaulLane | None
    seen: list[LonghaulCell] = field(default_factory=list)

    def __repr__(self) -> str:
        return "run"

    def __call__(
        self, *, lane: LonghaulLane | None = None, check: bool = True, **program: Unpack[LonghaulProgram]
    ) -> LonghaulCell:
        """Measure the program. A program that fails, a mistake, or a lab that cannot run fails the test.

        So does an invalid cell, unless `check` is false.
        """
        __tracebackhide__ = True
        return self._cells(self._lane(lane), program, check=check)[0]

    def law(
        self, *, rtt: Sequence[str], lane: LonghaulLane | None = None, check: bool = True,
        **program: Unpack[LonghaulProgram],
    ) -> LonghaulLaw:  # fmt: skip
        """Measure the program at these RTTs and fit its law. Where no law holds, the test fails with the reason."""
        __tracebackhide__ = True
        if isinstance(rtt, str) or len(set(rtt)) < 2:
            pytest.fail('rtt: a law needs two RTTs, and three for intervals: rtt=["10ms", "80ms", "346ms"]')
        given = self._lane(lane or self.lane or LonghaulLane())
        cells = self._cells(replace(given, rtt=",".join(map(str, rtt))), program, check=check)
        from emulator.analysis.program_law import NoLaw
        from emulator.report import program_report
        from emulator.report.program_table import series_of

        results = [cell.result for cell in cells]
        rows = program_report.rows([one.spec for one in results], {one.spec.id: one for one in results})
        series = series_of(rows)
        if len(series) > 1:
            pytest.fail(ONE_EACH.format(len(cells)))
        if isinstance(series[0].law, NoLaw):
            pytest.fail(f"{series[0].law_text}\nby hand: {cells[0].command}")
        return LonghaulLaw(series[0].law, series[0].law_text, tuple(cells))

    def _lane(self, given: LonghaulLane | None) -> LonghaulLane:
        __tracebackhide__ = True
        lane = given or self.lane
        if lane is None:
            pytest.fail(NEEDS_LANE)
        if not isinstance(lane, LonghaulLane):
            raise TypeError(f'lane={lane!r} is no lane: write lane=lane(rtt="80ms")')
        return lane

    def _cells(self, lane: LonghaulLane, program: LonghaulProgram, *, check: bool) -> list[LonghaulCell]:
        """The measured cells, one for each RTT of the lane; fails the test instead of raising our own errors."""
        __tracebackhide__ = True
        argv = self.lab.arguments(lane, program)
        cells = attempted(lambda: list(self.lab.cells(argv)))
        if isinstance(cells, LonghaulError):
            give_up(cells, shlex.join(["longhaul", "sweep", *argv]), skips=self.lab.skips)
        if len(cells) != len(lane.rtt.split(",")):
            pytest.fail(ONE_EACH.format(len(cells)))
        self.seen += cells
        if check and (void := [f"{cell} {reason}" for cell in cells for reason in cell.invalid]):
            pytest.fail("\n".join([*void, "check=False returns it nevertheless", f"by hand: {cells[0].command}"]))
        return cells


def attempted(measure: Callable[[], list[LonghaulCell]]) -> list[LonghaulCell] | LonghaulError:
    """The cells, or our own error as a value: a test that fails while an exception is handled shows that one, too."""
    try:
        return measure()
    except LonghaulError as error:
        return error


def cell_of(done: Execution, command: str) -> LonghaulCell:
    """A measurement as a test sees it."""
    from emulator.experiment.program_result import ProgramResult

    assert isinstance(done.result, ProgramResult)
    said = done.raw["program"]
    client, server = said["outputs"][0], said["server"]
    return LonghaulCell(done.result, command, client["out"], client["err"], server["out"], server["err"])


def check_lab_options(options: Sequence[str]) -> None:
    """Raise InputError for an option that `longhaul_lab` cannot have."""
    names = [word.partition("=")[0] for word in options if word.startswith("-")]
    if wrong := [Mistake("longhaul_lab", "", no_such("option", name, LAB_OPTIONS)) for name in names
                 if name not in LAB_OPTIONS]:  # fmt: skip
        raise InputError(wrong)


def told(error: LonghaulError) -> str:
    """An error for a test: keywords instead of options, what the program printed, and what to do next."""
    if isinstance(error, InputError):
        places = [(one, one.where.removeprefix("--").replace("-", "_")) for one in error.mistakes]
        mine = [replace(one, where=place if one.where.startswith("--") else one.where) for one, place in places]
        return "\n".join(map(str, mine))
    lines = [str(error), *getattr(error, "__notes__", ())]
    if isinstance(error, LabError) and not isinstance(error, LabTimeout | LabStalled):
        lines.append(DOCTOR)
    elif isinstance(error, MissingError) and not isinstance(error, LabError):
        lines.append(PACKAGES)
    return "\n".join(lines)


def give_up(error: LonghaulError, command: str, *, skips: bool) -> NoReturn:
    """Fail the test, or skip it where the lab cannot run and the user wants that."""
    __tracebackhide__ = True
    text = told(error)
    if skips and isinstance(error, LabError) and not isinstance(error, LabTimeout | LabStalled):
        pytest.skip(text)
    pytest.fail(f"{text}\nby hand: {command}")
