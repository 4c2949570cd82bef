"""Where a lab's programs come from: its image, packages on top of it, another root file system, or this machine."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from emulator.lab import boot_options
from emulator.lab.boot_options import Reader
from emulator.lab.build_kernel import FULL, STANDARD
from emulator.lab.kernel_version import PTRACE
from emulator.model import debian_packages

PROGRAMS = "/lab/programs"
"""Where a lab with --root has that root file system; its own code keeps the image's."""
OWN_BIN = "/run/longhaul/bin"
"""Holds `longhaul` in a lab whose programs are not the image's."""

PYTHONPATH = "/opt/longhaul/src:/opt/longhaul/site-packages"
_FROM_A_FOLDER = f"""#!/bin/sh
r=/proc/1/root
export PYTHONPATH={PYTHONPATH} PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
exec $r/lib64/ld-linux-x86-64.so.2 --library-path $r/usr/lib/x86_64-linux-gnu $r/usr/bin/unshare --root=$r \\
  --wd="$PWD" /usr/local/bin/longhaul "$@"
"""
"""Leaves the programs' root for the image's, which is process 1's."""

CONFIGS = (STANDARD, FULL)
WANT_FULL = frozenset(
    ("conntrack", "fuse3", "iptables", "mptcpd", "nfs-common", "nfs-kernel-server", "nftables", "sshfs", "wireguard",
     "wireguard-tools")
)  # fmt: skip
"""Packages whose programs need what only the full kernel has."""


class RootChoice(Struct, frozen=True):
    """What was asked for. `packages` are on top of the image, `folder` replaces it, `host` is this machine's own root.

    At most one of the three is given. `kernel_config` is one of CONFIGS; "" follows from the packages. `project` is a
    folder of this machine that the programs may read besides, under its own name. `kernel` is a kernel of the user's:
    its id in the cache, or until it is built a name, a series, or a path; "" is Longhaul's. `cc_sources` are C files
    to be built into it. `kernels` are those of a sweep's cells, each as (name, kernel).
    """

    packages: tuple[str, ...] = ()
    folder: str = ""
    host: bool = False
    kernel_config: str = ""
    project: str = ""
    kernel: str = ""
    cc_sources: tuple[str, ...] = ()
    kernels: tuple[tuple[str, str], ...] = ()

    def of_kernel(self, name: str) -> RootChoice:
        """The choice for a cell that names its kernel; the same where the cell names none."""
        return replace(self, kernel=dict(self.kernels)[name], kernels=()) if name else self

    @property
    def config(self) -> str:
        """The kernel's configuration."""
        return self.kernel_config or (FULL if WANT_FULL.intersection(self.packages) else STANDARD)

    @property
    def asked(self) -> str:
        """The option that differs from the usual, for a message; "" when none does."""
        others: dict[str, object] = {
            "--kernel-config": self.kernel_config, "--project": self.project, "--kernel": self.kernel or self.kernels,
            "--cc-source": self.cc_sources,
        }  # fmt: skip
        return self.option.partition(" ")[0] or next((option for option, given in others.items() if given), "")

    @property
    def option(self) -> str:
        """The option that asks for this root; "" for the image."""
        if self.host:
            return "--host-root"
        if self.folder:
            return f"--root {self.folder}"
        return f"--with {','.join(self.packages)}" if self.packages else ""


class LabRoot(Struct, frozen=True):
    """What a lab boots with: the kernel's executable, the root of its own code, and what lies on top of it.

    `image` is "/" when the programs are this machine's. `layer` is the root of the added packages, `owners` the paths
    in it that are not root's: (path, uid, gid). `mode`: how this kernel stops its processes (`kernel_version`).
    """

    choice: RootChoice
    linux: Path
    image: Path
    layer: Path | None = None
    owners: tuple[tuple[str, int, int], ...] = ()
    mode: str = PTRACE

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of this machine in which a program is looked for; the first one wins."""
        if self.choice.folder:
            return (Path(self.choice.folder),)
        return (*((self.layer,) if self.layer else ()), self.image)


def parse_folder(text: str) -> str:
    """The absolute path of a root file system. Raises ValueError for a folder that is none."""
    folder = Path(text).resolve()
    if not folder.is_dir():
        raise ValueError(f"{text!r} is no folder: name the root of an unpacked file system")
    if folder == Path("/"):
        raise ValueError("it is this machine's own root: use --host-root")
    if not any((folder / name).is_dir() for name in ("bin", "usr/bin", "sbin")):
        raise ValueError(f"{text!r} is no root file system: it has neither bin nor usr/bin")
    return str(folder)


def parse_project(text: str) -> str:
    """The absolute path of a folder of this machine. Raises ValueError for what is none."""
    folder = Path(text).resolve()
    if not folder.is_dir():
        raise ValueError(f"{text!r} is no folder")
    if folder == Path("/tmp"):
        raise ValueError("'/tmp' cannot be seen in the lab, which has one of its own: name a folder below it")
    if why := boot_options.why_not_there(folder, ()):
        raise ValueError(f"{text!r} cannot be seen in the lab: {why}; name another folder")
    return str(folder)


def read(
    reader: Reader, packages: str | None, folder: str | None, host: bool, kernel_config: str | None = None
) -> RootChoice:
    """The choice of a command line. `reader` keeps the mistakes."""
    given = {"--with": packages, "--root": folder, "--host-root": "" if host else None}
    if len(named := {option: text for option, text in given.items() if text is not None}) > 1:
        reader.refuse(dict.fromkeys(list(named)[1:], ""), f"it replaces the root that {next(iter(named))} gives")
    return RootChoice(
        reader.read("--with", debian_packages.parse, packages) or (),
        reader.read("--root", parse_folder, folder) or "",
        host,
        kernel_config or "",
    )


def home(choice: RootChoice) -> str:
    """HOME in the lab: with this machine's root an empty folder, so that no settings of the user take part."""
    return "/run/longhaul" if choice.host else "/root"


def python_path(choice: RootChoice, *, own: bool) -> dict[str, str]:
    """PYTHONPATH in the lab: with the image our own source; with this machine's root what this process has.

    Programs of a folder have none, unless the command is one of our `own`.
    """
    if choice.host:
        return {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
    return {} if choice.folder and not own else {"PYTHONPATH": PYTHONPATH}


def own_prefixes(choice: RootChoice) -> tuple[Path, ...]:
    """With this machine's root the folders of the Python that runs Longhaul: its environment, and its base."""
    return tuple(dict.fromkeys((Path(sys.prefix), Path(sys.base_prefix)))) if choice.host else ()


def own_python(choice: RootChoice) -> str:
    """The Python that has Longhaul and its packages, in the lab."""
    return sys.executable if choice.host else "python3"


def own_files(choice: RootChoice) -> dict[str, str]:
    """The scripts that the lab makes beside programs that are not the image's: OWN_BIN."""
    if choice.host:
        return {f"{OWN_BIN}/longhaul": f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m emulator "$@"\n'}
    return {f"{OWN_BIN}/longhaul": _FROM_A_FOLDER} if choice.folder else {}


def shown(names: Sequence[str]) -> str:
    """Names in a sentence: the first few."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
