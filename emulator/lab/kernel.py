"""The lab's kernel: User-mode Linux from Debian's own source package, with our kernel.config and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..errors import LabError
from .cache import Progress, building, command, entry, need

SOURCE = Path("/usr/src/linux-source-6.12.tar.xz")
CONFIG = Path(__file__).with_name("kernel.config")
RECIPE = "2"
"""Raise it when the steps below change: an older build is then not taken for this one."""

OBJECTS = 1330
"""About how many files are compiled, for the progress bar."""

TOOLS = {
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "xz": "xz-utils", "dpkg-deb": "dpkg",
}  # fmt: skip


def place() -> Path:
    """Where the kernel is, or will be: the executable `linux` in this folder."""
    return entry("kernel", [CONFIG.read_bytes(), SOURCE.name, RECIPE])


def build(progress: Progress) -> Path:
    """Build the kernel unless it is there. Returns the executable. Raises LabError."""
    goal = place()
    with building(goal) as partial:
        if partial:
            need(TOOLS)
            tree = _unpack(partial, progress)
            _configure(tree)
            _compile(tree, progress)
            (tree / "linux").rename(partial / "linux")
            command(["strip", partial / "linux"])
            command(["rm", "-rf", tree])
    return goal / "linux"


def _unpack(partial: Path, progress: Progress) -> Path:
    progress("unpack the kernel's source", 0, 1)
    archive = SOURCE
    if not archive.exists():
        # No root needed to take a package apart.
        command(["apt-get", "download", "linux-source-6.12"], cwd=partial)
        package = next(partial.glob("linux-source-6.12_*.deb"))
        command(["dpkg-deb", "-x", package, partial / "package"])
        archive = partial / "package" / SOURCE.relative_to("/")
    tree = partial / "tree"
    tree.mkdir()
    left_out = [f"--exclude=*/{path}" for path in ("Documentation/*/*", "tools/testing")]
    command(["tar", "-xJf", archive, "-C", tree, "--strip-components=1", *left_out])
    # The generic header takes its place: the guest's random numbers then come from the seed alone, not the host.
    (tree / "arch/um/include/asm/archrandom.h").unlink()
    return tree


def _configure(tree: Path) -> None:
    make = ["make", "-s", "ARCH=um"]
    command([*make, "tinyconfig"], cwd=tree)
    command(["./scripts/kconfig/merge_config.sh", "-m", ".config", CONFIG], cwd=tree, env={"ARCH": "um"})
    command([*make, "olddefconfig"], cwd=tree)
    check_config(CONFIG.read_text(), (tree / ".config").read_text())


def check_config(asked: str, got: str) -> None:
    """Raises LabError naming every line of kernel.config that this kernel did not keep."""
    kept = set(got.splitlines())
    if lost := [line for line in asked.splitlines() if line.startswith("CONFIG_") and line not in kept]:
        raise LabError(f"the kernel's configuration lost {', '.join(lost)}")


def _compile(tree: Path, progress: Progress) -> None:
    argv = ["make", "ARCH=um", f"-j{os.cpu_count()}", "linux"]
    lines: list[str] = []
    with subprocess.Popen(
        argv, cwd=tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as make:
        assert make.stdout
        for line in make.stdout:
            lines.append(line.rstrip())
            progress("compile the kernel", min(len(lines), OBJECTS), OBJECTS)
    if make.returncode != 0:
        raise LabError("the kernel does not compile:\n" + "\n".join(lines[-12:]))
