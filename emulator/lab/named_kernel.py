"""Build a kernel that a user names: a series of Debian's, a folder, an archive; with patches, configuration, C files.

Such a kernel is compiled in a workspace that is kept, so that the next one of the same source compiles what changed.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from emulator.errors import LabError
from emulator.lab import build_kernel, congestion_source, kernel_config, kernel_patches, kernel_source, kernel_store
from emulator.lab import kernel_version as versions
from emulator.lab.build_cache import Progress, building, command, entry, need
from emulator.lab.build_kernel import BUILD, LINES, PATCHES, RECORD, STANDARD, TOOLS
from emulator.lab.congestion_source import CongestionSource
from emulator.lab.kernel_source import OBJECTS, KernelOrigin, SourceState
from emulator.lab.kernel_store import KernelRecord
from emulator.lab.kernel_version import KernelVersion
from emulator.lab.kernel_workspace import Workspace, opened
from emulator.system import struct_json

RECIPE = "1"
"""Increase it when the steps below change: the cache then ignores older builds."""

FEW_FILES = 40
"""A build that compiled no more is not packed again: the next one compiles these files anew, which takes less time."""

Check = Callable[[Path, str], str]
"""Boots an executable in a mode and returns the congestion controls that it has. Raises LabError when it fails."""


class KernelRequest(Struct, frozen=True):
    """What to build: a source, a user's patches, fragments and congestion controls, and the lab's configuration."""

    origin: KernelOrigin
    patches: tuple[Path, ...] = ()
    fragments: tuple[Path, ...] = ()
    sources: tuple[CongestionSource, ...] = ()
    config: str = STANDARD

    @property
    def plain(self) -> bool:
        """Whether a user added nothing."""
        return not (self.patches or self.fragments or self.sources)

    @property
    def standard(self) -> bool:
        """Whether it is the kernel that a lab has without any choice."""
        return self.plain and f"linux-source-{self.origin.series}" == build_kernel.PACKAGE

    @property
    def name(self) -> str:
        """What it is called when the user gives it no name."""
        added = [*(path.stem for path in (*self.patches, *self.fragments)), *(one.name for one in self.sources)]
        base = self.origin.name if self.plain else f"linux-{self.origin.name}" * bool(self.origin.series)
        return "-".join([base or self.origin.name, *added])[:40].rstrip("-._+")


def place(request: KernelRequest, state: SourceState) -> Path:
    """The folder of the kernel in the cache. Its name depends on every input of the build."""
    parts: list[list[str | bytes]] = [
        *own_inputs(request.config),
        [path.read_bytes() for path in request.patches],
        [path.read_bytes() for path in request.fragments],
        [f"{one.name}\n{one.source}" for one in request.sources],
    ]
    counts = [str(len(part)) for part in parts]
    return entry("kernel", [RECIPE, state.digest, repr(BUILD), *counts, *(one for part in parts for one in part)])


def own_inputs(config: str) -> tuple[list[str | bytes], list[str | bytes]]:
    """What Longhaul itself puts into a kernel of this configuration: its patches, its fragments."""
    patches: list[str | bytes] = [text.read_bytes() for text in sorted(PATCHES.rglob("*.patch"))]
    return patches, [path.read_bytes() for path in build_kernel.fragments(config)]


def build(request: KernelRequest, progress: Progress, check: Check) -> Path:
    """Build the kernel unless it is there. Returns its folder. Raises LabError, also for one that does not boot."""
    state = kernel_source.state(request.origin)
    goal = place(request, state)
    with building(goal, build_kernel.ROOM_BYTES) as partial:
        if partial:
            need(TOOLS)
            began = time.monotonic()
            record, seen = _built(request, state, partial, progress), partial / "linux"
            found = check(seen, record.mode)
            record = replace(
                record, congestion_controls=tuple(sorted(found.split())), seconds=round(time.monotonic() - began, 1)
            )
            _refuse_silent(request, record)
            text = json.dumps(struct_json.to_plain(record), indent=1) + "\n"
            (partial / kernel_store.RECORD).write_text(text, "utf-8")
    return goal


def _refuse_silent(request: KernelRequest, record: KernelRecord) -> None:
    """Raise LabError for a congestion control that was compiled, and that the kernel did not register."""
    for one in request.sources:
        if one.name not in record.congestion_controls:
            raise LabError(
                f"{one.file}: the kernel was built and has no congestion control {one.name!r}: does its module_init "
                "return the result of tcp_register_congestion_control, and has the struct all that the kernel asks for?"
            )


def _built(request: KernelRequest, state: SourceState, partial: Path, progress: Progress) -> KernelRecord:
    """Compile the kernel into `partial`. Raises LabError."""
    with opened(request.origin, state.digest, partial, progress) as workspace:
        version = _version(workspace, request.origin)
        for one in request.sources:
            if workspace.read(one.path) is not None:
                raise LabError(f"{one.file}: the source has a file {one.path} already")
        patched = kernel_patches.patched(workspace.read, request.patches, str(version))
        files = dict(patched.files) | _sources(workspace, patched.files, request)
        workspace.install(files)
        _configure(workspace, request, version, progress)
        lines = _compile(workspace, request, progress)
        command(["strip", "-o", partial / "linux", workspace.tree / OBJECTS / "linux"])
        compiled = sum(line.lstrip().startswith(("CC ", "AS ")) for line in lines)
        workspace.worth_keeping = compiled > FEW_FILES
        (partial / RECORD).write_text(workspace.version, "utf-8")
        _keep_inputs(request, partial / "inputs")
        return KernelRecord(
            str(version), state.told, workspace.version, state.commit, state.diff, version.mode, request.config,
            tuple(path.name for path in request.fragments),
            tuple(_told(patch) for patch in patched.applied), dict(patched.obsolete),
            tuple(one.name for one in request.sources), (), _compiler(), compiled_files=compiled,
        )  # fmt: skip


def _version(workspace: Workspace, origin: KernelOrigin) -> KernelVersion:
    try:
        return versions.of_makefile((workspace.read("Makefile") or b"").decode(errors="replace"))
    except ValueError as error:
        raise LabError(f"{origin.text} is no source of Linux: {error}") from None


def _sources(
    workspace: Workspace, patched: Mapping[str, bytes | None], request: KernelRequest
) -> dict[str, bytes | None]:
    """The files of the user's congestion controls, and the Makefile that compiles them."""
    if not request.sources:
        return {}
    place = f"{congestion_source.FOLDER}/Makefile"
    text = (patched.get(place) or workspace.read(place) or b"").decode()
    made: dict[str, bytes | None] = {one.path: one.source.encode() for one in request.sources}
    return made | {place: congestion_source.makefile(text, request.sources).encode()}


def _configure(workspace: Workspace, request: KernelRequest, version: KernelVersion, progress: Progress) -> None:
    """Write the configuration, unless the last build had the same. Raises LabError for lines that are not kept."""
    texts = [path.read_text("utf-8") for path in (*build_kernel.fragments(request.config), *request.fragments)]
    asked = kernel_config.merged(texts, version)
    objects = workspace.tree / OBJECTS
    written = objects / "lab.config"
    if written.exists() and written.read_text("utf-8") == asked and not workspace.new_options:
        return
    objects.mkdir(exist_ok=True)
    written.unlink(missing_ok=True)
    build_kernel.configure(workspace.tree, asked, version, progress, OBJECTS)
    written.write_text(asked, "utf-8")


def _compile(workspace: Workspace, request: KernelRequest, progress: Progress) -> list[str]:
    try:
        return build_kernel.compile_kernel(workspace.tree, LINES[request.config], progress, OBJECTS)
    except LabError as error:
        text = str(error)
        for one in request.sources:  # the compiler names the copy
            text = text.replace(f"../{one.path}", one.file).replace(one.path, one.file)
        raise LabError(text) from None


def _told(patch: Path) -> str:
    """A patch's name; of the lab's own for newer versions with its folder."""
    return str(patch.relative_to(PATCHES)) if patch.is_relative_to(PATCHES) else patch.name


def _keep_inputs(request: KernelRequest, folder: Path) -> None:
    """Copies of what the user added: the kernel's licence asks for them, and a reader of the results."""
    if request.plain:
        return
    folder.mkdir()
    for number, path in enumerate((*request.patches, *request.fragments)):
        shutil.copy(path, folder / f"{number}-{path.name}")
    for one in request.sources:
        (folder / f"{one.name}.c").write_text(one.source, "utf-8")


def _compiler() -> str:
    return command(["gcc", "--version"]).splitlines()[0]
