"""Build the lab's kernel: User-mode Linux from Debian's source package, with `kernel.config` and `patches/`.

There are two configurations. `standard` is `kernel.config`; `full` adds `kernel-full.config`: WireGuard, nf_tables,
MPTCP, NFS and FUSE.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from emulator.errors import LabError
from emulator.lab import kernel_config, kernel_version
from emulator.lab.build_cache import Progress, building, command, entry, need, need_room
from emulator.lab.kernel_version import KernelVersion
from emulator.lab.runtime import runtime_folder, why_not

PACKAGE = "linux-source-6.12"
SOURCE = Path(f"/usr/src/{PACKAGE}.tar.xz")
STANDARD, FULL = "standard", "full"
CONFIG = Path(__file__).with_name("kernel.config")
FULL_CONFIG = Path(__file__).with_name("kernel-full.config")
PATCHES = Path(__file__).with_name("patches")
"""NNNN-name.patch, applied in the order of their names; each begins with its reason."""
PREBUILT = Path(__file__).with_name("prebuilt")
"""In the platform wheel: kernels that scripts/release built, in folders of the same names as in the cache."""
RECIPE = "5"
"""Increase it when the steps below change: the cache then ignores older builds."""

RECORD = "source-version"
"""The file beside the kernel that holds the version of the source package."""

LINES = {STANDARD: 1412, FULL: 1814}
"""About how many lines `make` prints, for the progress bar."""

SCRATCH_BYTES = 2 << 30
"""The unpacked source and its objects need this much at most."""
ROOM_BYTES = 64 << 20
"""What a kernel takes of the cache at most; it has 7 MiB."""

BUILD = {
    "KBUILD_BUILD_TIMESTAMP": "2001-09-09 01:46:40 UTC", "KBUILD_BUILD_VERSION": "1", "KBUILD_BUILD_USER": "lab",
    "KBUILD_BUILD_HOST": "lab",
}  # fmt: skip
"""The kernel mixes its own version string into its random numbers: the same on every machine."""

TOOLS = {
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "patch": "patch", "xz": "xz-utils",
    "dpkg-deb": "dpkg",
}  # fmt: skip

_ERROR = re.compile(r"\berror: |\bundefined reference to |\bfatal: ")

UNUSED = (
    "Documentation/*/*", "tools/testing/*", "samples/*.[chS]", "sound/*.[chS]", "arch/[!ux]*/*.[chS]", "arch/*.dts",
    "arch/*.dtsi",
    *(f"drivers/{name}/*.[chS]" for name in (
        "accel", "clk", "comedi", "crypto", "gpu", "hid", "hwmon", "iio", "infiniband", "input", "media", "mfd", "mmc",
        "mtd", "net/dsa", "net/ethernet", "net/wireless", "pinctrl", "platform", "scsi", "staging", "usb", "video",
    )),
)  # fmt: skip
"""Sources that no lab compiles, by tar's patterns; Kconfig and Makefiles stay, for the configuration reads them all."""


def place(config: str = STANDARD) -> Path:
    """The folder that holds the kernel `linux`, or will hold it: the wheel's, else one in the cache.

    Its name depends on every input of the build.
    """
    patches = [part for patch in series() for part in (patch.name, patch.read_bytes())]
    asked = [file.read_bytes() for file in fragments(config)]
    made = entry("kernel", [*asked, SOURCE.name, *patches, repr(BUILD), RECIPE])
    packed = PREBUILT / made.name
    return packed if packed.exists() else made


def fragments(config: str) -> list[Path]:
    """The files of a configuration: each adds to the one before."""
    return [CONFIG, FULL_CONFIG] if config == FULL else [CONFIG]


def congestion_controls(config: str) -> tuple[str, ...]:
    """The congestion controls of a configuration."""
    return kernel_config.congestion_controls("".join(file.read_text("utf-8") for file in fragments(config)))


def series() -> list[Path]:
    """The patches in the order in which they are applied."""
    return sorted(PATCHES.glob("*.patch"))


def source_version(config: str = STANDARD) -> str:
    """The version of the cached kernel's source package; "" without a kernel, or for one that was built before."""
    record = place(config) / RECORD
    return record.read_text("utf-8").strip() if record.exists() else ""


def installed_version() -> str:
    """The version of the source package on this machine; "" when it is not installed."""
    try:
        done = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", PACKAGE], check=False, capture_output=True, text=True
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if not done.returncode else ""


def other_source() -> str:
    """What to know when the installed source package is not the one of the cached kernel; else ""."""
    built, installed = source_version(), installed_version()
    if place().parent == PREBUILT or not built or not installed or built == installed:
        return ""
    return f"{PACKAGE} {installed} is installed: remove {place()} and run longhaul lab build to use it"


def build(progress: Progress, config: str = STANDARD) -> Path:
    """Build the kernel unless it is there. Returns the executable. Raises LabError."""
    goal = place(config)
    with building(goal, ROOM_BYTES) as partial:
        if partial:
            need(TOOLS)
            with build_folder(partial) as scratch:
                tree, version = _unpack(scratch, progress)
                for patch in series():
                    apply(patch, tree)
                texts = [file.read_text("utf-8") for file in fragments(config)]
                linux = kernel_version.of_makefile((tree / "Makefile").read_text("utf-8"))
                configure(tree, kernel_config.merged(texts, linux), linux, progress)
                compile_kernel(tree, LINES[config], progress)
                command(["strip", "-o", partial / "linux", tree / "linux"])
                (partial / RECORD).write_text(version, "utf-8")
    return goal / "linux"


@contextmanager
def build_folder(partial: Path) -> Iterator[Path]:
    """A folder to build in: in memory if there is enough, because a slow disk takes minutes to write 40 000 files."""
    free = os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize if Path("/dev/shm").exists() else 0
    if not why_not() and min(free, _available_memory_bytes()) > 2 * SCRATCH_BYTES:
        with runtime_folder() as folder:
            yield folder
        return
    need_room(partial, SCRATCH_BYTES)
    folder = partial / "scratch"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def _available_memory_bytes() -> int:
    """The memory that programs can use without swapping: MemAvailable of proc(5)."""
    lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _unpack(scratch: Path, progress: Progress) -> tuple[Path, str]:
    """The source, and the version of its package."""
    archive, version = SOURCE, installed_version()
    if not archive.exists():
        progress("download the kernel's source", 0, 1)
        # Unpacking a package needs no root.
        command(["apt-get", "download", PACKAGE], cwd=scratch)
        package = next(scratch.glob(f"{PACKAGE}_*.deb"))
        command(["dpkg-deb", "-x", package, scratch / "package"])
        progress("download the kernel's source", 1, 1)
        archive = scratch / "package" / SOURCE.relative_to("/")
        version = command(["dpkg-deb", "-f", package, "Version"]).strip()
    progress("unpack the kernel's source", 0, 1)
    tree = scratch / "tree"
    tree.mkdir()
    command(["tar", "-xJf", archive, "-C", tree, "--strip-components=1", *(f"--exclude=*/{path}" for path in UNUSED)])
    progress("unpack the kernel's source", 1, 1)
    return tree, version


def apply(patch: Path, tree: Path) -> None:
    """Apply a patch where every line of its context matches. Raises LabError that names the patch and the cause."""
    # -N: a patch that was applied before is an error; without it patch would ask.
    argv: list[str | Path] = ["patch", "-p1", "-F0", "-N", "--no-backup-if-mismatch", "-i", patch]
    try:
        command(argv, cwd=tree)
    except LabError as error:
        raise LabError(f"{patch.name} does not apply to this kernel's source ({SOURCE.name}):\n{error}") from None


def configure(tree: Path, asked: str, linux: KernelVersion, progress: Progress, objects: str = "") -> None:
    """Write the .config of a tree, or of the folder of its `objects`. Raises LabError for lines that are not kept."""
    progress("configure the kernel", 0, 1)
    make = ["make", "-s", *([f"O={objects}"] if objects else []), "ARCH=um"]
    command([*make, "tinyconfig"], cwd=tree)
    with (tree / objects / ".config").open("a", encoding="utf-8") as config:
        config.write(asked)
    command([*make, "olddefconfig"], cwd=tree)
    if lost := kernel_config.lost(asked, (tree / objects / ".config").read_text("utf-8")):
        raise LabError(
            f"Linux {linux} does not keep {', '.join(lost)}: what such a line depends on is missing, or gone"
        )
    progress("configure the kernel", 1, 1)


def compile_kernel(tree: Path, expected: int, progress: Progress, objects: str = "") -> list[str]:
    """Run make in a configured tree, or for the folder of `objects`. Returns what it printed. Raises LabError."""
    output = [f"O={objects}"] if objects else []
    argv = ["make", *output, "ARCH=um", f"-j{len(os.sched_getaffinity(0))}", "linux"]
    lines: list[str] = []
    with subprocess.Popen(
        argv, cwd=tree, env={**os.environ, **BUILD}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as make:  # fmt: skip
        assert make.stdout
        for line in make.stdout:
            lines.append(line.rstrip())
            progress("compile the kernel", min(len(lines), expected - 1), expected)
    if make.returncode != 0:
        raise LabError("the kernel does not compile:\n" + "\n".join(why_not_compiled(lines)))
    progress("compile the kernel", expected, expected)
    return lines


def why_not_compiled(lines: Sequence[str], most: int = 12) -> list[str]:
    """What a failed make said of the cause: the compiler's and linker's errors with what follows them, or the end."""
    found = [n for n, line in enumerate(lines) if _ERROR.search(line)]
    told = dict.fromkeys(n for at in found for n in range(at, min(at + 3, len(lines))))
    return [lines[n] for n in told if "make[" not in lines[n]][:most] or list(lines[-most:])
