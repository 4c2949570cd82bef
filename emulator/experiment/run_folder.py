"""Run folders on disk: versioned JSON, each file written whole or not at all. Older formats are read too.

RUN/run.json          what was asked for, when, by which version, in which order
RUN/topology.yaml     the topology it was asked of
RUN/cells/ID.N.json   one measurement, written the moment it is there; N counts the repeats of cell ID
RUN/raw/ID.N.json     what the tools answered: the workload's JSON, the queues before and after, the machine
RUN/machine.json      kernel, sysctls, queues, offloads and versions where the first cell was measured
RUN/results.json      all results together, in the grid's order
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.analysis import confidence
from emulator.errors import InputError
from emulator.experiment.cell_result import FORMAT, CellResult, CellSpec
from emulator.experiment.merge import merge
from emulator.experiment.result_migrations import migrated
from emulator.system import atomic_file


@dataclass(frozen=True)
class Execution:
    """One measurement as it came back: the result, and the raw answers of the tools by name."""

    result: CellResult
    raw: dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a run is to do: its cells, where, how often at most each, and the seed of their order."""

    specs: tuple[CellSpec, ...]
    in_lab: bool
    most_repeats: int = 1
    order_seed: int = 0


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole: after a crash the old content or the new one stands there, never a part."""
    # Threads write too: cells that end at the same moment.
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    atomic_file.write(path, text.encode(), mode=0o666, draft=draft)


@dataclass(frozen=True)
class RunFolder:
    """One execution of a sweep on disk; it can be taken up again."""

    path: Path

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, Any], asked: Asked) -> RunFolder:
        """Make the folder and keep what was asked for; `facts` is whatever else is worth knowing."""
        try:
            for part in ("cells", "raw"):
                (path / part).mkdir(parents=True)
        except OSError as error:
            raise InputError.single(f"the run folder cannot be made: {error.strerror}", str(path)) from None
        value = {
            "format": FORMAT,
            **facts,
            "in_lab": asked.in_lab,
            "most_repeats": asked.most_repeats,
            "order_seed": asked.order_seed,
            "cells": [spec.to_json() for spec in asked.specs],
        }
        write_atomically(path / "run.json", json.dumps(value, indent=1) + "\n")
        return cls(path)

    def facts(self) -> dict[str, Any]:
        """run.json as it stands. Raises InputError when this is no run folder."""
        return _read(self.path / "run.json")

    def asked(self) -> Asked:
        """What was asked for. Raises InputError when this is no run folder."""
        file = self.path / "run.json"
        value = _read(file)
        try:
            specs = tuple(CellSpec.from_json(cell) for cell in value["cells"])
            return Asked(specs, value["in_lab"], value.get("most_repeats", 1), value.get("order_seed", 0))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError.single(f"cannot be read as a run: {error}", str(file)) from None

    def save(self, done: Execution) -> None:
        """Keep one measurement and what it rests on; the first one tells the machine too."""
        spec = done.result.spec
        name = f"{spec.id}.{spec.repeat}.json"
        (self.path / "raw").mkdir(exist_ok=True)
        write_atomically(self.path / "raw" / name, json.dumps(done.raw) + "\n")
        if "machine" in done.raw and not (self.path / "machine.json").exists():
            write_atomically(self.path / "machine.json", json.dumps(done.raw["machine"], indent=1) + "\n")
        # Last: a result that is there is whole.
        write_atomically(self.path / "cells" / name, json.dumps(done.result.to_json(), indent=1) + "\n")

    def repeats(self, spec: CellSpec, most: int) -> list[CellResult]:
        """The measurements of exactly this cell that are here, first to last. Raises InputError on a spoilt file."""
        found: list[CellResult] = []
        for repeat in range(most):
            # Format 1 knew no repeats.
            names = [f"{spec.id}.{repeat}.json", *([f"{spec.id}.json"] if not repeat else [])]
            file = next((path for name in names if (path := self.path / "cells" / name).exists()), None)
            if file is None or (result := _load(file)).spec != spec.again(repeat):
                break
            found.append(result)
        return found

    def finished(self, asked: Asked) -> dict[str, CellResult]:
        """The results of the cells that need no more repeats, by id."""
        return {id: merge(all) for id, all in self._all(asked) if _complete(all, asked.most_repeats)}

    def measured(self, asked: Asked) -> dict[str, CellResult]:
        """The results that are here, whether or not repeats are missing, by id."""
        return {id: merge(all) for id, all in self._all(asked) if all}

    def _all(self, asked: Asked) -> list[tuple[str, list[CellResult]]]:
        return [(spec.id, self.repeats(spec, asked.most_repeats)) for spec in asked.specs]

    def write_results(self, results: Iterable[CellResult]) -> None:
        """All results in one file."""
        value = {"format": FORMAT, "cells": [result.to_json() for result in results]}
        write_atomically(self.path / "results.json", json.dumps(value, indent=1) + "\n")

    def write(self, name: str, text: str) -> None:
        """Another file of the run: table.md, table.csv."""
        write_atomically(self.path / name, text)

    def machine(self) -> dict[str, Any]:
        """What it was measured with; empty before the first cell."""
        file = self.path / "machine.json"
        return dict(json.loads(file.read_text("utf-8"))) if file.exists() else {}


def _complete(results: Sequence[CellResult], most: int) -> bool:
    return bool(results) and confidence.enough([result.steady_bytes_per_s for result in results], most)


def run_folders(runs: Path) -> list[RunFolder]:
    """The runs below a folder, the oldest first; whatever else lies there is left out."""
    return [RunFolder(file.parent) for file in sorted(runs.glob("*/run.json"))]


def _read(file: Path) -> dict[str, Any]:
    """A JSON file of this format or an older one. Raises InputError."""
    try:
        value = json.loads(file.read_text("utf-8"))
        found = value.get("format")
    except FileNotFoundError:
        raise InputError.single(f"is no run folder, for it has no {file.name}", str(file.parent)) from None
    except OSError as error:
        raise InputError.single(f"cannot be read: {error.strerror}", str(file)) from None
    except (ValueError, AttributeError) as error:
        raise InputError.single(f"cannot be read, it is spoilt or cut off: {error}", str(file)) from None
    if found not in range(1, FORMAT + 1):
        text = f"is of format {found}; this version reads 1 to {FORMAT}: use the Longhaul that wrote it, or a newer one"
        raise InputError.single(text, str(file))
    return dict(value)


def _load(file: Path) -> CellResult:
    try:
        return CellResult.from_json(migrated(_read(file)))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError.single(f"cannot be read as a result: {error}; delete it", str(file)) from None
