"""What the cells of a sweep need of their labs: built, with every program there, before the first one boots."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from emulator.experiment.cell_result import CellSpec
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


def further_controls() -> tuple[str, ...]:
    """The congestion controls that the configuration all-cc adds to the standard one."""
    from emulator.lab import build_kernel

    usual = build_kernel.congestion_controls(build_kernel.STANDARD)
    return tuple(name for name in build_kernel.congestion_controls(build_kernel.ALL_CC) if name not in usual)


def with_controls(wanted: Collection[str], choice: RootChoice) -> RootChoice:
    """The choice; with the kernel of all congestion controls where a cell wants one that only that kernel has.

    A configuration that the user or a package asks for stays, and so does a kernel that is built already.
    """
    from emulator.lab import build_kernel, kernel_choice

    needs = choice.config == build_kernel.STANDARD and not choice.kernel_config and {*wanted} & {*further_controls()}
    named = [choice.kernel, *(kernel for _, kernel in choice.kernels)]
    stored = any(kernel and kernel_choice.is_stored(kernel) for kernel in named)
    return replace(choice, kernel_config=build_kernel.ALL_CC) if needs and not stored else choice


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
