"""What the cells of a sweep need of their labs: built, with every program there, before the first one boots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from emulator.experiment.cell_spec import CellSpec
from emulator.hosts.tools import machine_facts, program_root, workloads
from emulator.hosts.tools.program import ProgramWorkload

if TYPE_CHECKING:
    from emulator.lab.build_cache import Progress
    from emulator.lab.lab_root import LabRoot, RootChoice

PROJECT = "PROJECT"
"""The variable that names the folder of --project to the programs of a cell."""

OF_THE_HOST = ("ip", "ping", "sh", "ss", "tc")
"""What Longhaul itself runs; the lab's image has it."""


def with_packages(specs: Sequence[CellSpec], choice: RootChoice) -> RootChoice:
    """The choice; where it names no root, with the packages that the cells' programs need."""
    loads = [spec.workload.program for spec in specs if isinstance(spec.workload, ProgramWorkload)]
    names = {name for load in loads for name in load.packages}
    return choice if choice.option else replace(choice, packages=tuple(sorted(names)))


def settled(choice: RootChoice, progress: Progress) -> RootChoice:
    """The choice with every kernel that it names built. Raises LabError."""
    from emulator.lab import boot

    return boot.settled(progress, choice)


def built(specs: Sequence[CellSpec], choice: RootChoice, progress: Progress) -> LabRoot:
    """Build what the labs boot with. Raises LabError, and MissingError that names every program that is not there."""
    from emulator.lab import boot, programs

    root = boot.built(progress, choice.of_kernel(specs[0].kernel) if specs else choice)
    own = needed_of_host(specs) if choice.host else ()
    programs.check([*own, *used(specs)], root)
    return root


def used(specs: Sequence[CellSpec]) -> tuple[str, ...]:
    """The programs that the users' commands start by a name, each once; not words of the shell, nor own files."""
    from emulator.lab.programs import SHELL_WORDS

    loads = [spec.workload.program for spec in specs if isinstance(spec.workload, ProgramWorkload)]
    names = dict.fromkeys(name for load in loads for name in load.programs if "PATH" not in load.environment)
    return tuple(name for name in names if name not in SHELL_WORDS and ("/" not in name or name.startswith("/")))


def needed_of_host(specs: Sequence[CellSpec]) -> tuple[str, ...]:
    """What Longhaul runs of this machine's own programs."""
    streams = workloads.STREAMS.kind  # which is the name of their tool, too
    return (*OF_THE_HOST, *([streams] if any(spec.workload.kind == streams for spec in specs) else []))


def environment(specs: Sequence[CellSpec], root: LabRoot) -> dict[str, str]:
    """What the lab of a cell is told: the kernel's source, where its programs are and came from."""
    from emulator.lab import build_kernel, kernel_store, lab_facts, lab_root

    record = kernel_store.record_of(root.linux.parent) if root.choice.kernel else None
    version = record.package_version or record.version if record else build_kernel.source_version(root.choice.config)

    facts = lab_facts.of_root(root, [*used(specs), *(needed_of_host(specs) if root.choice.host else ())])
    told = {
        machine_facts.LAB_SOURCE: version,
        machine_facts.LAB_ROOT: json.dumps(facts),
    }
    if root.choice.project:
        told[PROJECT] = root.choice.project
    return told | ({program_root.LAB_PROGRAMS: lab_root.PROGRAMS} if root.choice.folder else {})
