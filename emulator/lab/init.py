"""The lab's init, process 1 in the lab: prepares the system, runs the command, powers off.

It imports only the standard library.
"""

import ctypes
import fcntl
import hashlib
import json
import os
import select
import struct
import sys
import traceback
from pathlib import Path
from typing import Any

OWN_IMAGE = "longhaul_host" not in os.environ
"""Whether the root is the lab's image; else it is the host's, seen read-only, which has no place for mounts of ours."""
STAGE = Path("/lab" if OWN_IMAGE else "/tmp")
RUN = STAGE / "run"
"""The launcher's folder on the host: spec.json comes in; REPORTS go out. Once they are open, it is unmounted."""
MERGED = STAGE / "rw/merged"
PROGRAMS = "/lab/programs"
REPORTS = ("stdout", "stderr", "heartbeat", "exit")
STATE = "/var/lib/longhaul"
"""Where Longhaul remembers lanes (system/state_dir)."""

MS_RDONLY, MS_NOATIME, MS_BIND, MS_MOVE, MS_REC, MS_SHARED = 1, 1 << 10, 1 << 12, 1 << 13, 1 << 14, 1 << 20
MNT_DETACH = 2
RNDADDENTROPY = 0x40085203
RNDRESEEDCRNG = 0x5207
POWER_OFF = 0x4321FEDC
FIRST_BEAT_S, LONGEST_BEAT_S = 1.0, 10.0

libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    if libc.mount(*map(os.fsencode, (source, target, kind)), flags, os.fsencode(data)) != 0:
        raise OSError(ctypes.get_errno(), f"mount {kind} on {target}: {os.strerror(ctypes.get_errno())}")


def enter_root(spec: dict[str, Any]) -> None:
    """Change the root to a writable overlay over what is read-only; all writes stay in memory."""
    mount("tmpfs", str(MERGED.parent), "tmpfs")
    lower = [hostfs(path, MERGED.parent / f"layer{n}") for n, path in enumerate(spec["layers"])]
    overlay([*lower, "/"], MERGED.parent, MERGED)
    if spec["programs"]:
        below = hostfs(spec["programs"], MERGED.parent / "programs")
        overlay([below], MERGED.parent / "of-programs", Path(f"{MERGED}{PROGRAMS}"))
    if spec["changes"]:
        mount(str(MERGED.parent / "upper"), f"{MERGED}/lab/changes", "", MS_BIND)
    libc.umount2(os.fsencode(RUN), MNT_DETACH)
    # Moved onto the old root: in a mere chroot(2) the kernel refuses user namespaces.
    os.chdir(MERGED)
    mount(str(MERGED), "/", "", MS_MOVE)
    os.chroot(".")
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    mount("devtmpfs", "/dev", "devtmpfs")
    mount("devpts", "/dev/pts", "devpts")
    for path in ("/run", "/tmp", "/dev/shm"):
        mount("tmpfs", path, "tmpfs", 0, "mode=1777")
    if not OWN_IMAGE and Path(STATE).is_dir():
        # What this machine remembers of its own lanes is not about the lab's, and may be closed to the user.
        mount("tmpfs", STATE, "tmpfs", 0, "mode=0700")
    for source in spec["sources"]:
        mount("none", f"/opt/longhaul/src/{Path(source).name}", "hostfs", MS_RDONLY, source)
    for path in spec["own_folders"]:
        hostfs(path, Path(path))
    if spec["folder"]:
        # The first read of a new file would else update its atime, and change the bytes of this boot against the next.
        mount("none", spec["folder"], "hostfs", MS_NOATIME, spec["folder"])
    for path, uid, gid in spec["owners"]:
        if os.path.lexists(f"/{path}"):
            os.lchown(f"/{path}", uid, gid)
    for path, text in spec["files"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, "utf-8")
        Path(path).chmod(0o755)
    if spec["programs"]:
        share([*spec["own_folders"], *([spec["folder"]] if spec["folder"] else [])])


def hostfs(path: str, target: Path) -> str:
    """Mount a folder of the host read-only; returns where."""
    mount("none", str(target), "hostfs", MS_RDONLY, path)
    return str(target)


def overlay(lower: list[str], memory: Path, target: Path) -> None:
    """Mount folders over one another, the first on top, with what is written in a folder of memory."""
    for name in ("upper", "work"):
        (memory / name).mkdir(parents=True)
    folders = f"lowerdir={':'.join(lower)},upperdir={memory}/upper,workdir={memory}/work"
    mount("overlay", str(target), "overlay", 0, folders)


def share(folders: list[str]) -> None:
    """Give the programs' own root the system's folders of this one and these, so that both see the same."""
    mount("none", "/run", "", MS_SHARED)  # a namespace that is named later appears in both
    for path in ("/proc", "/sys", "/dev", "/run", "/tmp", *folders):
        mount(path, PROGRAMS + path, "", MS_BIND | MS_REC)


def seed_random(seed: int) -> None:
    """Credit the kernel's random pool with bytes that are a function of the seed."""
    entropy = b"".join(hashlib.sha512(f"{seed}/{n}".encode()).digest() for n in range(4))
    with Path("/dev/urandom").open("wb") as device:
        fcntl.ioctl(device, RNDADDENTROPY, struct.pack("ii", len(entropy) * 8, len(entropy)) + entropy)
        # Reseed at once: the kernel seeded itself at boot and would otherwise use these bytes only a minute later.
        fcntl.ioctl(device, RNDRESEEDCRNG)


def loopback_up() -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up, running


def open_reports() -> dict[str, int]:
    flags = os.O_WRONLY | os.O_APPEND | os.O_SYNC
    return {name: os.open(RUN / name, os.O_WRONLY | os.O_SYNC if name == "heartbeat" else flags) for name in REPORTS}


def run(spec: dict[str, Any], reports: dict[str, int]) -> int:
    pid = os.fork()
    if pid == 0:
        start(spec, reports["stdout"], reports["stderr"])
    return wait(pid, reports["heartbeat"])


def start(spec: dict[str, Any], stdout: int, stderr: int) -> None:
    """In the child: execute the command; exit with 127 when there is no such program, as a shell does."""
    os.setsid()
    if spec["terminal"]:
        terminal = os.open("/dev/tty0", os.O_RDWR)
        fcntl.ioctl(terminal, 0x540E, 0)  # TIOCSCTTY: job control
        stdin = stdout = stderr = terminal
    else:
        stdin = os.open("/dev/null", os.O_RDONLY)
    for target, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, target)
    if spec["programs"] and not spec["own"]:
        os.chroot(PROGRAMS)
    os.chdir(spec["folder"] or "/tmp")
    try:
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except OSError as error:
        os.write(2, f"{spec['argv'][0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def wait(pid: int, heartbeat: int) -> int:
    """Until the command ends, beating now and then so that the launcher sees the virtual clock move."""
    pidfd, beat_s = os.pidfd_open(pid), FIRST_BEAT_S
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    while not poll.poll(int(beat_s * 1000)):
        beat_s = min(beat_s * 1.05, LONGEST_BEAT_S)
        os.pwrite(heartbeat, "\n".join(running()).ljust(4096).encode()[:4096], 0)
        reap(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def reap(command: int) -> None:
    """Reap dead orphans, which are children of process 1, but leave the command to `wait`."""
    while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if dead.si_pid == command:
            return
        os.waitpid(dead.si_pid, 0)


def running() -> list[str]:
    """The command lines of the runnable processes. Reading them takes no virtual time."""
    found = []
    for entry in (path.name for path in Path("/proc").iterdir()):
        if entry.isdigit() and entry != "1":
            try:
                state = read(f"/proc/{entry}/stat").rsplit(b")", 1)[1].split()[0]
                words = read(f"/proc/{entry}/cmdline").split(b"\0")
            except OSError:
                continue
            if state == b"R" and words[0]:
                found.append(b" ".join(words).decode(errors="replace").strip()[:200])
    return found


def read(path: str) -> bytes:
    """The first page of a file, by calls that succeed: here one that fails takes 1 us of virtual time.

    Path.read_text also asks whether the file is a terminal. In a lab of 60 processes a beat then took 78 us, and
    delayed by so much an echo that was about to be sent.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def main() -> None:
    if not OWN_IMAGE:
        mount("tmpfs", str(STAGE), "tmpfs")
        mount("none", str(RUN), "hostfs", 0, os.environ["longhaul_run"])  # noqa: SIM112
    spec, reports = json.loads((RUN / "spec.json").read_text("utf-8")), open_reports()
    enter_root(spec)
    seed_random(spec["seed"])
    loopback_up()
    libc.sethostname(b"lab", 3)
    code = run(spec, reports)
    os.write(reports["exit"], str(code if code >= 0 else 128 - code).encode())


try:
    main()
except BaseException:
    traceback.print_exc()
    sys.stderr.flush()
finally:
    os.sync()
    libc.reboot(POWER_OFF)
