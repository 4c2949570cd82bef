"""What one boot reserves on the host while it runs: a folder and a CPU, each held by a file lock."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from emulator import units
from emulator.errors import LabError
from emulator.system import installation

PREFIX = "longhaul-lab-"
MAPPINGS, MORE_MAPPINGS = Path("/proc/sys/vm/max_map_count"), "vm.max_map_count=1048576"
ELSEWHERE = ("/dev/shm", "/tmp", "/var/tmp")
"""Where the guest's memory can lie, the fastest first."""
ROOM_BYTES = 256 << 20
"""The tables of 8 GiB of pages take 128 MiB; with 128 MiB of room no lab boots, with 256 MiB the founding star runs."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
FEWEST_FILES = 64
"""With so many open files a lab boots; with 20 its kernel panics."""
NEW_FOLDER = "sudo mount -t tmpfs -o mode=1777 tmpfs /mnt && export TMPDIR=/mnt"
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
TRACE_ME = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); "
TRACE_ME += "c.ptrace(0, 0, 0, 0) and print(os.strerror(ctypes.get_errno()))"
"""A Python program that asks to be traced by its parent (PTRACE_TRACEME) and prints why the kernel refuses."""

_PLAIN = re.compile(r"[A-Za-z0-9_./+@%=:~-]{1,200}")
"""A folder's name that the kernel's command line can hold: it has no quoting for all others, and an end."""


class Obstacle(Struct, frozen=True):
    """Why the lab cannot run on this machine, and what to do: in a sentence, and as a command ("" without one)."""

    what: str
    cure: str = ""
    command: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.cure}" if self.cure else self.what


def why_not() -> list[str]:
    """The reasons why the lab cannot run on this machine; empty when it can."""
    return [str(one) for one in obstacles()]


def obstacles(yama: Path = YAMA) -> list[Obstacle]:
    """As `why_not`, each reason with its cure. `yama` is the file of Yama's setting for ptrace(2)."""
    found, folder = [], parent()
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        found.append(Obstacle(f"the lab needs Linux on x86-64, this is {sys.platform} on {os.uname().machine}"))
    if not _PLAIN.fullmatch(str(folder)):
        cure = "set it to a short name of letters, digits and ._/+@%=:~-"
        found.append(Obstacle(f"TMPDIR is {str(folder)!r}", cure, _elsewhere()))
    elif not os.access(folder, os.W_OK):
        found.append(Obstacle(f"{folder} is not writable", "set TMPDIR to a folder that is", _elsewhere()))
    elif os.statvfs(folder).f_flag & os.ST_NOEXEC:
        found.append(Obstacle(f"{folder} is mounted noexec", "set TMPDIR to a folder that is not", _elsewhere()))
    if (files := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < FEWEST_FILES:
        now = f"a lab needs {FEWEST_FILES} open files, and {files} are permitted"
        found.append(Obstacle(now, "raise the limit: ulimit -n 1024", "ulimit -n 1024"))
    if yama.exists() and yama.read_text("utf-8").strip() == "3":
        cure = "set kernel.yama.ptrace_scope to 2 or less"
        found.append(Obstacle("ptrace is forbidden", cure, "sysctl -w kernel.yama.ptrace_scope=1"))
    return found


def refused_trace() -> str:
    """Why a process here may not be traced, which User-mode Linux needs: in the kernel's words; "" when it may."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", TRACE_ME], check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else f"the attempt ended with {done.returncode}"


def refused_memory() -> str:
    """Why memory here may not be both written and executed, which User-mode Linux needs; "" when it may."""
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def free_bytes(folder: Path) -> int:
    """The room in a folder, in bytes."""
    seen = os.statvfs(folder)
    return seen.f_bavail * seen.f_frsize


def few_mappings() -> Obstacle:
    """Why this machine's kernel mapped no more memory for a process of the lab."""
    what = "the lab's kernel ended a process that needs more memory mappings of this machine's kernel than it permits"
    now = f"vm.max_map_count is {MAPPINGS.read_text('utf-8').strip()}, and each page of the process may take one"
    return Obstacle(what, f"{now}: sudo sysctl {MORE_MAPPINGS}", f"sudo sysctl {MORE_MAPPINGS}")


def crowded() -> Obstacle | None:
    """What is wrong when the guest's memory has too little room; None when it has enough."""
    if (free := free_bytes(parent())) >= ROOM_BYTES:
        return None
    what = f"{parent()} has room for {units.format_size(free)} of the guest's memory"
    command = _elsewhere()
    return Obstacle(what, f"a lab of 8 GiB needs {units.format_size(ROOM_BYTES)} and more: {command}", command)


def _elsewhere() -> str:
    """The command that makes the lab use another folder, or makes one where none here would do."""
    usable = (
        folder
        for folder in map(Path, ELSEWHERE)
        if os.access(folder, os.W_OK)
        and not os.statvfs(folder).f_flag & os.ST_NOEXEC
        and free_bytes(folder) >= ROOM_BYTES
    )
    made = "docker run --tmpfs /tmp:exec ..." if installation.in_container() else NEW_FOLDER
    return next((f"export TMPDIR={folder}" for folder in usable), made)


def parent() -> Path:
    """The folder on the host in which the boots have theirs: $TMPDIR, /dev/shm without it."""
    return Path(os.environ.get("TMPDIR") or ELSEWHERE[0]).absolute()


@contextmanager
def runtime_folder() -> Iterator[Path]:
    """Make a folder for one boot and remove it afterwards. Also removes what killed launchers left behind."""
    if reasons := why_not():
        raise LabError("\n".join(reasons))
    try:
        with _runtime_folder() as folder:
            yield folder
    except OSError as error:
        if error.errno in NO_ROOM and (full := crowded()):
            raise LabError(str(full)) from error
        raise


@contextmanager
def _runtime_folder() -> Iterator[Path]:
    with _gate():
        for old in parent().glob(f"{PREFIX}*"):
            with suppress(OSError), (old / "lock").open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(old, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent()))
        lock = (folder / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()


@contextmanager
def _gate() -> Iterator[None]:
    """Admit one launcher of this user at a time: a new folder that is not locked yet would look abandoned."""
    path = parent() / f"longhaul-gate-{os.getuid()}"
    try:
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        raise LabError(f"{parent()} takes no file: {error.strerror}; set TMPDIR: {_elsewhere()}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def cpu_of_its_own(asked: int | None) -> Iterator[int]:
    """Reserve a CPU that no other lab of this user has. Labs share CPUs only when there are more labs than CPUs."""
    cpus = [asked] if asked is not None else sorted(os.sched_getaffinity(0))
    held = None
    for cpu in cpus:
        path = parent() / f"longhaul-cpu{cpu}-{os.getuid()}"
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            continue
        held = (cpu, fd)
        break
    try:
        yield held[0] if held else cpus[time.monotonic_ns() % len(cpus)]
    finally:
        if held:
            os.close(held[1])
