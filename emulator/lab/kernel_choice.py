"""From what a user asked of the kernel to one that is there: a name, a series, a path; patches, fragments, C files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from emulator.lab import congestion_source, kernel_config, kernel_source, kernel_store, named_kernel
from emulator.lab.build_cache import Progress
from emulator.lab.build_kernel import FULL, PACKAGE, STANDARD
from emulator.lab.congestion_source import CongestionSource
from emulator.lab.kernel_source import KernelOrigin
from emulator.lab.kernel_store import ID
from emulator.lab.lab_root import RootChoice
from emulator.lab.named_kernel import Check, KernelRequest
from emulator.system import bounded_file
from emulator.system.bounded_file import FileKind

SOURCE = FileKind("a congestion control's source", 1 << 20)
PATCH = FileKind("a patch", 64 << 20)
FRAGMENT = FileKind("a fragment of a kernel's configuration", 1 << 20)
STANDARD_SERIES = PACKAGE.rpartition("-")[2]


def parse_kernel(text: str) -> str:
    """A kernel as `RootChoice` holds it: a name, an id, a series, or an absolute path (of a commit with @ID). Raises
    ValueError."""
    if text == STANDARD:
        return STANDARD_SERIES
    if text == FULL:
        raise ValueError(f"{FULL!r} is a configuration of the standard kernel: use --kernel-config {FULL}")
    if kernel_source.SERIES.fullmatch(text):
        return text
    if "/" in text or "@" in text or Path(text).exists():
        return kernel_source.parse_origin(text).text
    try:
        kernel_store.find(text)
    except ValueError as error:
        raise ValueError(
            f"{error}; or a series of Debian's ({STANDARD_SERIES}), a folder, a commit of a "
            "Git repository (FOLDER@REV), an archive"
        ) from None
    return text


def parse_kernels(text: str) -> tuple[tuple[str, str], ...]:
    """Several kernels with commas between them, as `RootChoice` holds them: each with the name of its column.

    Raises ValueError with every mistake.
    """
    found, wrong = [], []
    for part in (part.strip() for part in text.split(",")):
        try:
            kernel = parse_kernel(part)
        except ValueError as error:
            wrong.append(str(error))
            continue
        found.append((kernel_source.parse_origin(kernel).name if "/" in kernel else kernel, kernel))
    names = [name for name, _ in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        wrong.append(f"{', '.join(twice)} is named twice: build it under another name (lab build --name), and use that")
    if wrong:
        raise ValueError("; ".join(wrong))
    return tuple(found)


def parse_source(text: str) -> str:
    """The absolute path of a C file with a congestion control. Raises ValueError."""
    load_source(Path(text))
    return str(Path(text).resolve())


def load_source(path: Path) -> CongestionSource:
    """A congestion control from its file. Raises ValueError."""
    return congestion_source.parse(_text(path, SOURCE), str(path), congestion_source.OF_LINUX)


def check_names(paths: str) -> str:
    """The paths of files with congestion controls, one a line, each of another name. Raises ValueError."""
    sources = [load_source(Path(path)) for path in paths.splitlines()]
    count = Counter(source.path for source in sources)
    if twice := sorted({source.name for source in sources if count[source.path] > 1}):
        told = f"two files define the congestion control {' or '.join(twice)}"
        raise ValueError(f"{told}: give each another .name, in which - and _ are the same")
    return paths


def parse_patch(text: str) -> Path:
    """A patch. Raises ValueError."""
    from emulator.lab import kernel_patches

    if not kernel_patches.touched(_text(Path(text), PATCH)):
        raise ValueError(f"{text!r} is no patch: it names no file after --- and +++")
    return Path(text).resolve()


def parse_fragment(text: str) -> Path:
    """A fragment of a configuration. Raises ValueError that names the line."""
    try:
        kernel_config.parse(_text(Path(text), FRAGMENT))
    except ValueError as error:
        raise ValueError(f"{text}, {error}") from None
    return Path(text).resolve()


def _text(path: Path, kind: FileKind) -> str:
    try:
        return bounded_file.read_text(path, kind)
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is no UTF-8 text: {error.reason}") from None


def sources(choice: RootChoice) -> tuple[CongestionSource, ...]:
    """The C files of a choice. Raises ValueError."""
    return tuple(load_source(Path(path)) for path in choice.cc_sources)


def congestion_controls(choice: RootChoice, standard: Sequence[str]) -> tuple[str, ...]:
    """The congestion controls of the kernel that this choice leads to; `standard` are those of Longhaul's own.

    Raises ValueError, LabError.
    """
    if choice.kernels:
        each = [congestion_controls(choice.of_kernel(name), standard) for name, _ in choice.kernels]
        return tuple(name for name in each[0] if all(name in others for others in each))
    there: Sequence[str] = standard
    if (
        choice.kernel
        and (id := _stored(choice.kernel))
        and (record := kernel_store.record_of(kernel_store.folder_of(id)))
    ):
        there = record.congestion_controls
    return (*there, *(one.name for one in sources(choice)))


def _stored(text: str) -> str:
    """The id of a kernel that is there under this name; "" for a series or a path."""
    known = kernel_store.names()
    return text if ID.fullmatch(text) else "" if kernel_source.SERIES.fullmatch(text) else known.get(text, "")


def request(choice: RootChoice, patches: Sequence[Path] = (), fragments: Sequence[Path] = ()) -> KernelRequest:
    """What is to be built for a choice. Raises ValueError where a kernel that is built already cannot be built upon."""
    text = choice.kernel or STANDARD_SERIES
    if _stored(text):
        raise ValueError(
            f"{text} is built already, and nothing can be added to it: name a source, which is a series (6.12), a "
            "folder, a commit (FOLDER@REV) or an archive"
        )
    origin = KernelOrigin(series=text) if kernel_source.SERIES.fullmatch(text) else kernel_source.parse_origin(text)
    return KernelRequest(origin, tuple(patches), tuple(fragments), sources(choice), choice.config)


def settled(choice: RootChoice, progress: Progress, check: Check) -> RootChoice:
    """The choice with its kernel as an id, built if it is not there. Raises LabError, ValueError."""
    if choice.kernels:
        each = ((name, settled(choice.of_kernel(name), progress, check).kernel) for name, _ in choice.kernels)
        return replace(choice, kernels=tuple(each), cc_sources=())
    if not (choice.kernel or choice.cc_sources):
        return choice
    if not choice.cc_sources and (id := _stored(choice.kernel)):
        return replace(choice, kernel=id)
    return replace(choice, kernel=built(request(choice), "", progress, check), cc_sources=())


def built(asked: KernelRequest, called: str, progress: Progress, check: Check) -> str:
    """Build a kernel and give it its name. Returns its id; "" for the one that labs have anyway. Raises LabError."""
    if asked.standard and not called:
        return ""
    folder = named_kernel.build(asked, progress, check)
    kernel_store.name(folder, called or asked.name)
    return folder.name


def is_settled(choice: RootChoice) -> bool:
    """Whether nothing is to be built for the kernel of this choice beyond Longhaul's own."""
    kernels = (choice.kernel, *(kernel for _, kernel in choice.kernels))
    return not choice.cc_sources and all(not kernel or ID.fullmatch(kernel) for kernel in kernels)
