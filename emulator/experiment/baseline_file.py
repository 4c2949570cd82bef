"""Baselines: from the results of a sweep, and as files that users keep in their repository.

A file is YAML with one line for each cell, in the sweep's order. The same results give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

from emulator import __version__
from emulator.analysis import regression_gate
from emulator.analysis.regression_gate import (
    BY_KEY,
    COUNTED,
    HOSTS,
    KINDS,
    LAB,
    Baseline,
    CellFigure,
    Conditions,
    Figures,
    MeasuredCell,
)
from emulator.config import yaml_source
from emulator.config.yaml_source import Source, Tree
from emulator.errors import InputError, no_such
from emulator.experiment.cell_result import CellResult
from emulator.experiment.flows_result import FlowsResult
from emulator.experiment.program_result import ProgramResult
from emulator.experiment.requests_result import RequestsResult
from emulator.experiment.results import Result
from emulator.experiment.run_folder import Asked, RunFolder
from emulator.system import bounded_file, named_file

FORMAT = "1"
HEAD = """\
# The baseline of a sweep, for `longhaul sweep ... --baseline FILE`. Keep it in your repository.
# To renew it: longhaul sweep ... --write-baseline FILE --force
"""
FORMAT_KEY, CONDITIONS_KEY, CELLS_KEY = "longhaul_baseline", "measured", "cells"
CONDITIONS = ("place", "kernel", "longhaul", "settings")
UNCERTAINTY = "uncertainty"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+%-]*")
"""A text that YAML reads as itself without quotes: no indicator of YAML is in it."""
_PERCENT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)%")


def figures(result: Result) -> Figures:
    """What a baseline holds of a result."""
    value, share = result.figure, result.half_width_share
    percent = 100 * share if math.isfinite(share) else None
    if isinstance(result, CellResult | FlowsResult):
        found = [CellFigure.rounded("throughput", value * 8, percent)]
    elif isinstance(result, ProgramResult):
        found = [CellFigure.rounded("completion", value * 1e9, percent)]
    else:
        assert isinstance(result, RequestsResult)
        times = result.requests.times
        found = [
            CellFigure.rounded("requests_per_s", value, percent),
            CellFigure.rounded("p50", times.p50_ns),
            CellFigure.rounded("p99", times.p99_ns),
        ]
    return {figure.key: figure for figure in found}


def measured_cells(asked: Asked, found: Mapping[str, Result], failures: Mapping[str, str]) -> list[MeasuredCell]:
    """Every cell that was asked for, in order, whether or not it was measured."""
    return [
        _measured(found[spec.id])
        if spec.id in found
        else MeasuredCell(spec.id, {}, failure=failures.get(spec.id, "it was not measured"))
        for spec in asked.specs
    ]


def _measured(result: Result) -> MeasuredCell:
    lasts_s = float(result.spec.duration_s * len(result.repeats))
    if isinstance(result, ProgramResult):
        lasts_s = sum(result.repeats) * len(result.program.runs)
    return MeasuredCell(result.spec.id, figures(result), result.judgement.invalid, seconds=lasts_s)


def conditions(asked: Asked, found: Mapping[str, Result], version: str = __version__) -> Conditions:
    """What the figures of a run depend on."""
    place = HOSTS
    if asked.in_lab:
        place = COUNTED if any(spec.counted for spec in asked.specs) else LAB
    kernels = dict.fromkeys(result.machine.kernel for result in found.values())
    wanted = json.dumps([spec.to_json() for spec in asked.specs], sort_keys=True)
    return Conditions(place, ", ".join(kernels), version, hashlib.sha256(wanted.encode()).hexdigest()[:12])


def of_run(folder: RunFolder, asked: Asked) -> Baseline:
    """The baseline that a run folder is, for the cells of `asked`. Raises InputError when it has none of them,
    or one that is invalid."""
    own = folder.asked()
    old, wanted = folder.measured(own), {spec.id for spec in asked.specs}
    cells = {id: figures(result) for id, result in old.items() if id in wanted}
    if not cells:
        raise InputError.single("this run has no cell in common with the sweep", "--baseline", str(folder.path))
    if void := [id for id in cells if old[id].judgement.invalid]:
        text = f"every cell of a baseline must be valid: {', '.join(void)} of this run are not"
        raise InputError.single(text, "--baseline", str(folder.path))
    return Baseline(conditions(own, old, str(folder.facts().get("version", ""))), cells)


def text(baseline: Baseline) -> str:
    """The file, which `loads` reads back to an equal baseline."""
    own = baseline.conditions
    lines = [f"{key}: {_quoted(getattr(own, key))}" for key in CONDITIONS if getattr(own, key)]
    head = f"{HEAD}{FORMAT_KEY}: {FORMAT}\n{CONDITIONS_KEY}: {{{', '.join(lines)}}}\n{CELLS_KEY}:\n"
    return head + "".join(f"  {_quoted(id)}: {{{_line(cell)}}}\n" for id, cell in baseline.cells.items())


def _line(cell: Figures) -> str:
    parts = []
    for figure in cell.values():
        parts.append(f"{figure.key}: {figure.kind.write(figure.value)}")
        if figure.percent is not None:
            percent = f"{figure.percent:.4f}".rstrip("0").rstrip(".")
            parts.append(f"{UNCERTAINTY}: {percent}%")
    return ", ".join(parts)


def _quoted(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "''") + "'"


def write(file: Path, baseline: Baseline) -> None:
    """Write the file. Raises MissingError."""
    named_file.write(file, text(baseline))


def load(file: Path) -> Baseline:
    """Read a baseline. Raises InputError with every mistake in it."""
    try:
        return loads(bounded_file.read_text(file, bounded_file.BASELINE), str(file))
    except FileNotFoundError:
        words = "does not exist; write it from a sweep that is as it should be: longhaul sweep ... --write-baseline"
        raise InputError.single(f"{words} {file}", "--baseline", str(file)) from None
    except OSError as error:
        raise InputError.single(f"cannot be read: {error.strerror}", str(file)) from None
    except UnicodeDecodeError:
        raise InputError.single("is not a text file in UTF-8", str(file)) from None


def loads(content: str, where: str) -> Baseline:
    """The baseline of a file's text, called `where` in mistakes. Raises InputError with every mistake in it."""
    source = yaml_source.read(content, where)
    tree = source.tree
    assert isinstance(tree, dict)
    if (found := tree.get(FORMAT_KEY)) not in (FORMAT, None):
        told = f"{found!r} is the format of another version, this one reads {FORMAT}: renew it with --write-baseline"
        raise InputError.single(told, source.at((FORMAT_KEY,)), FORMAT_KEY)
    known = (FORMAT_KEY, CONDITIONS_KEY, CELLS_KEY)
    _unknown(source, (), tree, known)
    for key in known:
        if key not in tree and (key,) not in source.lines:
            source.wrong((key,), "is missing; is this the baseline of a sweep?")
    measured = _conditions(source, tree.get(CONDITIONS_KEY, {}))
    given = _mapping(source, (CELLS_KEY,), tree.get(CELLS_KEY, {}))
    cells = {id: _cell(source, id, cell) for id, cell in given.items()}
    if not cells and (CELLS_KEY,) in source.lines:
        source.wrong((CELLS_KEY,), "has no cell")
    source.raise_mistakes()
    return Baseline(measured, cells)


def _unknown(source: Source, path: yaml_source.Path, tree: Mapping[str, Tree], known: tuple[str, ...]) -> None:
    for key in tree:
        if key not in known:
            source.wrong((*path, key), no_such("key", key, known))


def _mapping(source: Source, path: yaml_source.Path, tree: Tree) -> Mapping[str, Tree]:
    """The tree as a mapping; empty, with a mistake, when it is none."""
    if isinstance(tree, dict):
        return tree
    source.wrong(path, "is not a mapping: use KEY: VALUE")
    return {}


def _word(source: Source, path: yaml_source.Path, tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    source.wrong(path, "is not a single value")
    return ""


def _conditions(source: Source, tree: Tree) -> Conditions:
    found = _mapping(source, (CONDITIONS_KEY,), tree)
    _unknown(source, (CONDITIONS_KEY,), found, CONDITIONS)
    words = {key: _word(source, (CONDITIONS_KEY, key), found.get(key, "")) for key in CONDITIONS}
    if "place" in found and words["place"] not in (places := (LAB, COUNTED, HOSTS)):
        source.wrong((CONDITIONS_KEY, "place"), no_such("place", words["place"], places))
    return Conditions(**words)


def _cell(source: Source, id: str, tree: Tree) -> Figures:
    """One cell's figures, in the order of `KINDS`; `uncertainty` belongs to the first."""
    path = (CELLS_KEY, id)
    given = _mapping(source, path, tree)
    _unknown(source, path, given, (*BY_KEY, UNCERTAINTY))
    found: dict[str, CellFigure] = {}
    for key in (kind.key for kind in KINDS if kind.key in given):
        try:
            found[key] = CellFigure(key, float(BY_KEY[key].read(_word(source, (*path, key), given[key]))))
        except (ValueError, OverflowError) as error:
            source.wrong((*path, key), str(error))
    if not any(key in BY_KEY for key in given):
        source.wrong(path, f"has no figure: use {', '.join(BY_KEY)}")
    if UNCERTAINTY in given:
        percent = _percent(source, (*path, UNCERTAINTY), given[UNCERTAINTY])
        for key in list(found)[:1]:
            found[key] = CellFigure(key, found[key].value, percent)
    return found


def _percent(source: Source, path: yaml_source.Path, tree: Tree) -> float:
    word = _word(source, path, tree)
    if match := _PERCENT.fullmatch(word):
        return round(float(match[1]), 4)
    source.wrong(path, f"{word!r} is not a percentage: use 0.5%")
    return 0.0


def tolerance_percent(word: str) -> float:
    """The option --tolerance. Raises ValueError."""
    match = _PERCENT.fullmatch(word.replace(" ", ""))
    if not match or not 0 < (percent := float(match[1])) <= 100:
        raise ValueError(f"{word!r} is not a tolerance: use a percentage above 0% and up to 100%, such as 1%")
    return max(percent, 0.01)


def judge(
    baseline: Baseline | None, asked: Asked, found: Mapping[str, Result], failures: Mapping[str, str], tolerance: float
) -> regression_gate.Gate:
    """The verdicts on a sweep; without a baseline, on its validity alone. `tolerance` is in percent."""
    cells = measured_cells(asked, found, failures)
    if baseline is None:
        return regression_gate.without_baseline(cells)
    return regression_gate.compare(baseline, cells, conditions(asked, found), tolerance)
