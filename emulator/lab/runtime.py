"""What one boot reserves on the host while it runs: a folder and a CPU, each held by a file lock."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from emulator.errors import LabError

PREFIX = "longhaul-lab-"

_PLAIN = re.compile(r"[A-Za-z0-9_./+@%=:~-]{1,200}")
"""A folder's name that the kernel's command line can hold: it has no quoting for all others, and an end."""


def why_not() -> list[str]:
    """The reasons why the lab cannot run on this machine; empty when it can."""
    reasons = []
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        reasons.append(f"the lab needs Linux on x86-64, this is {sys.platform} on {os.uname().machine}")
    if not _PLAIN.fullmatch(str(parent())):
        reasons.append(f"TMPDIR is {str(parent())!r}: set it to a short name of letters, digits and ._/+@%=:~-")
    elif not os.access(parent(), os.W_OK):
        reasons.append(f"{parent()} is not writable: set TMPDIR to a folder that is")
    elif os.statvfs(parent()).f_flag & os.ST_NOEXEC:
        reasons.append(f"{parent()} is mounted noexec: set TMPDIR to a folder that is not")
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if scope.exists() and scope.read_text().strip() == "3":
        reasons.append("ptrace is forbidden: set kernel.yama.ptrace_scope to 2 or less")
    return reasons


def parent() -> Path:
    return Path(os.environ.get("TMPDIR") or "/dev/shm").absolute()


@contextmanager
def runtime_folder() -> Iterator[Path]:
    """Make a folder for one boot and remove it afterwards. Also removes what killed launchers left behind."""
    if reasons := why_not():
        raise LabError("\n".join(reasons))
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
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
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
