"""Run folders on disk: versioned JSON, each file written atomically. Older formats are read too.

RUN/run.json          the request: axes, time, version, order
RUN/topology.yaml     the topology to measure
RUN/cells/ID.N.json   one measurement, written as soon as it is complete; N counts the repeats of cell ID
RUN/raw/ID.N.json     output of the tools: the workload's JSON, the queues before and after, the machine
RUN/name.txt          the name that a user gave the run, if any; it may be given and changed at any time
RUN/machine.json      kernel, sysctls, queues, offloads and versions where the first cell was measured
RUN/files/ID.N/       files that a program left and the user wanted to keep
RUN/pcap/ID.N/        its captured frames, if the run was asked to keep them
RUN/results.json      all results together, in the grid's order
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from emulator.errors import InputError, MeasureError
from emulator.experiment import repeated_result, results
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.repeated_result import FORMAT
from emulator.experiment.results import Result
from emulator.lab.lab_root import RootChoice
from emulator.model import run_name
from emulator.model.program import check_path
from emulator.system import atomic_file, bounded_file, kept_file, struct_json

log = logging.getLogger("longhaul")
NAME = "name.txt"


class NewerFormatError(InputError):
    """Another version of Longhaul wrote the file: it is not spoilt."""


class Execution(Struct, frozen=True):
    """One measurement as returned: the result, the raw output of the tools by name, and files that it left by path."""

    result: Result
    raw: dict[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)


class Asked(Struct, frozen=True):
    """What a run must do: its cells, where, the most repeats of each, and the seed of their order.

    `snap_bytes` is how much of each frame it captures (0: all); None means that it captures nothing. `root` is where
    the programs of its labs come from.
    """

    specs: tuple[CellSpec, ...]
    in_lab: bool
    most_repeats: int = 1
    order_seed: int = 0
    snap_bytes: int | None = None
    root: RootChoice = field(default_factory=RootChoice)


def write_atomically(path: Path, text: str, *, clearing: bool = False) -> None:
    """Write a file atomically: after a crash it holds the old or the new content. Raises MissingError.

    `clearing`: see `atomic_file.write`.
    """
    # Threads write too: cells may end at the same time.
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    atomic_file.write(path, text.encode(), mode=0o666, draft=draft, clearing=clearing)


class RunFolder(Struct, frozen=True):
    """One execution of a sweep on disk; it can be resumed."""

    path: Path

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, Any], asked: Asked, name: str = "") -> RunFolder:
        """Create the folder and save the request; `facts` holds further information, `name` is for people."""
        try:
            for part in ("cells", "raw"):
                (path / part).mkdir(parents=True)
        except OSError as error:
            raise InputError.single(f"cannot create the run folder: {error.strerror}", str(path)) from None
        value = {
            "format": FORMAT,
            **facts,
            "in_lab": asked.in_lab,
            "most_repeats": asked.most_repeats,
            "order_seed": asked.order_seed,
            "snap_bytes": asked.snap_bytes,
            "root": struct_json.to_plain(asked.root),
            "cells": [spec.to_json() for spec in asked.specs],
        }
        # The name comes first: a folder with run.json is a run.
        if name:
            cls(path).rename(name)
        write_atomically(path / "run.json", json.dumps(value, indent=1) + "\n")
        return cls(path)

    def name(self) -> str:
        """The name that a user gave the run; empty for none, and where its file is spoilt, which is logged."""
        file = self.path / NAME
        try:
            return run_name.parse(kept_file.read(file, bounded_file.RUN_NAME).decode())
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            log.warning("%s is skipped: %s", file, error)
            return ""

    def rename(self, name: str) -> None:
        """Give the run another name; an empty one removes it. Raises MissingError."""
        write_atomically(self.path / NAME, name + "\n", clearing=True)

    def facts(self) -> dict[str, Any]:
        """The content of run.json. Raises InputError when this is not a run folder."""
        return _read(self.path / "run.json")

    def asked(self) -> Asked:
        """The requested cells. Raises InputError when this is not a run folder."""
        file = self.path / "run.json"
        value = _read(file)
        try:
            specs = tuple(CellSpec.from_json(cell) for cell in value["cells"])
            rest = (value.get("most_repeats", 1), value.get("order_seed", 0), value.get("snap_bytes"))
            root = struct_json.from_plain(RootChoice, value.get("root", {}))
            return Asked(specs, value["in_lab"], *rest, root)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise InputError.single(f"cannot be read as a run: {error}", str(file)) from None

    def save(self, done: Execution) -> None:
        """Save one measurement and its raw data; the first one also saves the machine's facts."""
        spec = done.result.spec
        name = f"{spec.stem}.json"
        for part in ("cells", "raw"):
            atomic_file.folder(self.path / part)
        write_atomically(self.path / "raw" / name, json.dumps(done.raw) + "\n", clearing=True)
        self._save_files(spec.stem, done.files)
        if "machine" in done.raw and not (self.path / "machine.json").exists():
            write_atomically(self.path / "machine.json", json.dumps(done.raw["machine"], indent=1) + "\n")
        # Written last: a result that exists is complete.
        text = json.dumps(done.result.to_json(), indent=1) + "\n"
        write_atomically(self.path / "cells" / name, text, clearing=True)

    def _save_files(self, name: str, files: Mapping[str, bytes]) -> None:
        """Save what a measurement left; a path that leads elsewhere is refused. Raises MissingError, MeasureError."""
        for path, content in files.items():
            try:
                place = self.path / "files" / name / check_path(path)
            except ValueError as error:
                raise MeasureError(f"the measurement left a file that cannot be kept: {error}") from None
            atomic_file.folder(place.parent)
            atomic_file.write(place, content, mode=0o666)

    def repeats(self, spec: CellSpec, most: int) -> list[Result]:
        """The measurements of exactly this cell in the folder, in order, up to one that is missing or spoilt: that one
        is measured again. Raises NewerFormatError."""
        found: list[Result] = []
        for repeat in range(most):
            # Format 1 had no repeats.
            names = [f"{spec.again(repeat).stem}.json", *([f"{spec.id}.json"] if not repeat else [])]
            file = next((path for name in names if os.path.lexists(path := self.path / "cells" / name)), None)
            result = _load(file) if file else None
            if result is None or result.spec != spec.again(repeat):
                break
            found.append(result)
        return found

    def finished(self, asked: Asked) -> dict[str, Result]:
        """The results of the cells that need no more repeats, by id."""
        return {
            id: repeated_result.merged(all) for id, all in self._all(asked) if results.enough(all, asked.most_repeats)
        }

    def measured(self, asked: Asked) -> dict[str, Result]:
        """The results so far, even of cells with missing repeats, by id."""
        return {id: repeated_result.merged(all) for id, all in self._all(asked) if all}

    def _all(self, asked: Asked) -> list[tuple[str, list[Result]]]:
        return [(spec.id, self.repeats(spec, asked.most_repeats)) for spec in asked.specs]

    def write_results(self, found: Iterable[Result]) -> None:
        """Write all results to one file."""
        value = {"format": FORMAT, "cells": [result.to_json() for result in found]}
        write_atomically(self.path / "results.json", json.dumps(value, indent=1) + "\n")

    def write(self, name: str, text: str) -> None:
        """Write another file of the run: table.md, table.csv."""
        write_atomically(self.path / name, text)

    def machine(self) -> dict[str, Any]:
        """The machine's facts; empty before the first cell, and when their file is spoilt."""
        try:
            return dict(kept_file.read_json(self.path / "machine.json", bounded_file.RUN))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s is skipped: %s", self.path / "machine.json", error)
            return {}


def run_folders(runs: Path) -> list[RunFolder]:
    """The runs below a folder, oldest first; it ignores everything else there."""
    return [RunFolder(file.parent) for file in sorted(runs.glob("*/run.json"))]


def _read(file: Path) -> dict[str, Any]:
    """Read a JSON file of this format or an older one. Raises InputError."""
    try:
        value = kept_file.read_json(file, bounded_file.RUN)
        found = value.get("format")
    except FileNotFoundError:
        raise InputError.single(f"is not a run folder: it has no {file.name}", str(file.parent)) from None
    except OSError as error:
        raise InputError.single(f"cannot be read: {error.strerror}", str(file)) from None
    except (ValueError, AttributeError) as error:
        raise InputError.single(f"cannot be read, it is damaged or truncated: {error}", str(file)) from None
    if found not in range(1, FORMAT + 1):
        text = f"has format {found}; this version reads 1 to {FORMAT}: use the Longhaul that wrote it, or a newer one"
        raise NewerFormatError.single(text, str(file))
    return dict(value)


def _load(file: Path) -> Result | None:
    """One measurement; None when its file is spoilt, which is logged. Raises NewerFormatError."""
    try:
        return results.from_json(_read(file))
    except NewerFormatError:
        raise
    except InputError as error:
        why = str(error)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        why = f"{file}: cannot be read as a result: {error}"
    log.warning("%s; sweep --resume measures it again", why)
    return None
