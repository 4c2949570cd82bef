"""A Debian root file system from mmdebstrap, and the disk made of it: ext4 without partitions or a boot loader.

Its kernel and initrd are returned beside the disk: QEMU boots them directly, with `root=/dev/vda`. Needs root.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NEEDED = {"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"}
"""What makes a disk, and the package of each."""


class Kernel(NamedTuple):
    """A kernel in a root file system, with its initrd."""

    release: str
    linux: Path
    initrd: Path


def bootstrap(suite: str, root: Path, packages: str, *options: str, mirror: str | None = None) -> None:
    """Install a Debian with `packages` (separated by commas) into an empty folder.

    `options` are mmdebstrap's; `mirror` is the archive to install from, Debian's own without it.
    """
    command = ["mmdebstrap", "-q", f"--include={packages}", '--aptopt=APT::Install-Recommends "false"', *options]
    subprocess.run([*command, suite, root, *([mirror] if mirror else [])], check=True, stdout=subprocess.DEVNULL)


def copies(folder: Path) -> str:
    """A hook of mmdebstrap that copies the content of a folder into the root file system, as root's."""
    owned = "--owner=0 --group=0 --mode=u=rwX,go=rX"
    # The mode does not depend on the umask of who checked the files out; programs stay programs.
    return f'tar -C "{folder}" {owned} -c . | tar -C "$1" -x --no-same-permissions --no-overwrite-dir'


def package_in(folder: Path) -> Path:
    """Longhaul's Debian package in the folder of a release, which has the lab's, too. Ends the program without one."""
    found = sorted(folder.glob("longhaul_*.deb"))
    if len(found) != 1:
        sys.exit(f"{folder} has {len(found) or 'no'} longhaul_*.deb, and one is needed: scripts/release --out {folder}")
    return found[0].resolve()


def installs(package: Path) -> Iterator[str]:
    """The hooks of mmdebstrap that install a Debian package from a file, with what it needs."""
    yield 'mkdir "$1/packages"'
    yield f'copy-in "{package}" /packages'
    yield f'chroot "$1" apt-get install -y --no-install-recommends "/packages/{package.name}"'


def write(tree: Path, disk: Path, size: str) -> None:
    """Write a root file system to a new disk; `size` is mke2fs's, such as 12G. The file has holes."""
    disk.unlink(missing_ok=True)
    subprocess.run(["mke2fs", "-qq", "-t", "ext4", "-d", tree, disk, size], check=True)


def kernels(tree: Path) -> list[Kernel]:
    """The kernels of a root file system, the oldest first."""
    found = sorted((tree / "boot").glob("vmlinuz-*"), key=_age)
    releases = [(kernel.name.removeprefix("vmlinuz-"), kernel) for kernel in found]
    return [Kernel(release, kernel, tree / f"boot/initrd.img-{release}") for release, kernel in releases]


def _age(kernel: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", kernel.name)]
