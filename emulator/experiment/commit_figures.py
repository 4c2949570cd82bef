"""What a cell measured at commits of Linux, kept in a folder of the cache: a bisection asks no commit twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.experiment import results
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.results import Result
from emulator.system import atomic_file, bounded_file
from emulator.system.bounded_file import FileKind

if TYPE_CHECKING:
    from emulator.lab.lab_root import RootChoice

FIGURE = FileKind("the result of a cell", 64 << 20)


def place(tree: Path, spec: CellSpec, choice: RootChoice, most_repeats: int) -> Path:
    """The folder of a cell's figures in a repository, which is made."""
    from emulator.lab import build_cache, named_kernel

    patches, fragments = named_kernel.own_inputs(choice.config)
    asked = [str(tree), json.dumps(spec.to_json()), repr(choice.packages), str(most_repeats)]
    folder = build_cache.entry("bisect", [*asked, *patches, *fragments])
    atomic_file.folder(folder)
    return folder


def kept(folder: Path, measure: Callable[[str], Result]) -> Callable[[str], Result]:
    """The same measuring function, which measures a commit only if the folder has no result of it.

    A failure is not kept: the next bisection tries again.
    """

    def known(commit: str) -> Result:
        file = folder / f"{commit}.json"
        if file.exists():
            return results.from_json(json.loads(bounded_file.read_text(file, FIGURE)))
        found = measure(commit)
        atomic_file.write(file, json.dumps(found.to_json()).encode(), mode=0o644)
        return found

    return known
