"""The lab's init: runs inside, as process 1, with nothing but the standard library. Prepares, runs, powers off."""

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

RUN = Path("/lab/run")
"""The launcher's folder on the host: spec.json comes in; stdout, stderr, heartbeat and exit go out."""

MS_RDONLY = 1
RNDADDENTROPY = 0x40085203
RNDRESEEDCRNG = 0x5207
POWER_OFF = 0x4321FEDC
FIRST_BEAT_S, LONGEST_BEAT_S = 1.0, 10.0

libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount {kind} on {target}: {os.strerror(ctypes.get_errno())}")


def enter_root(spec: dict[str, Any]) -> None:
    """A writable view of the read-only image: what is written stays in memory."""
    mount("tmpfs", "/lab/rw", "tmpfs")
    for name in ("upper", "work", "merged"):
        Path(f"/lab/rw/{name}").mkdir()
    mount("overlay", "/lab/rw/merged", "overlay", 0, "lowerdir=/,upperdir=/lab/rw/upper,workdir=/lab/rw/work")
    mount("none", "/lab/rw/merged/lab/run", "hostfs", 0, str(spec["run"]))
    os.chroot("/lab/rw/merged")
    os.chdir("/")
    mount("proc", "/proc", "proc")
    mount("sysfs", "/sys", "sysfs")
    mount("devtmpfs", "/dev", "devtmpfs")
    mount("devpts", "/dev/pts", "devpts")
    for path in ("/run", "/tmp", "/dev/shm"):
        mount("tmpfs", path, "tmpfs", 0, "mode=1777")
    for source in spec["sources"]:
        mount("none", f"/opt/longhaul/src/{Path(source).name}", "hostfs", MS_RDONLY, source)
    mount("none", spec["cwd"], "hostfs", 0, spec["cwd"])


def seed_random(seed: int) -> None:
    """Credit the kernel's random pool with bytes that are a function of the seed."""
    entropy = b"".join(hashlib.sha512(f"{seed}/{n}".encode()).digest() for n in range(4))
    with Path("/dev/urandom").open("wb") as device:
        fcntl.ioctl(device, RNDADDENTROPY, struct.pack("ii", len(entropy) * 8, len(entropy)) + entropy)
        # At once: seeded at boot already, the kernel would take these up a minute later only.
        fcntl.ioctl(device, RNDRESEEDCRNG)


def loopback_up() -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up, running


def run(spec: dict[str, Any]) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_SYNC
    out = [os.open(RUN / name, flags, 0o600) for name in ("stdout", "stderr")]
    pid = os.fork()
    if pid == 0:
        start(spec, *out)
    return wait(pid)


def start(spec: dict[str, Any], stdout: int, stderr: int) -> None:
    """In the child: become the command; 127 when there is none of that name, as a shell would."""
    os.setsid()
    if spec["terminal"]:
        terminal = os.open("/dev/tty0", os.O_RDWR)
        fcntl.ioctl(terminal, 0x540E, 0)  # TIOCSCTTY: job control
        stdin = stdout = stderr = terminal
    else:
        stdin = os.open("/dev/null", os.O_RDONLY)
    for target, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, target)
    os.chdir(spec["cwd"])
    try:
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])
    except OSError as error:
        os.write(2, f"{spec['argv'][0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def wait(pid: int) -> int:
    """Until the command ends, beating now and then so that the launcher sees the virtual clock move."""
    pidfd, beat_s = os.pidfd_open(pid), FIRST_BEAT_S
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    heartbeat = os.open(RUN / "heartbeat", os.O_WRONLY | os.O_CREAT | os.O_SYNC, 0o600)
    while not poll.poll(int(beat_s * 1000)):
        beat_s = min(beat_s * 1.05, LONGEST_BEAT_S)
        os.pwrite(heartbeat, json.dumps(running()).ljust(4096).encode()[:4096], 0)
        reap(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def reap(command: int) -> None:
    """Orphans become process 1's children: bury those that have died, but leave the command to `wait`."""
    while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if dead.si_pid == command:
            return
        os.waitpid(dead.si_pid, 0)


def running() -> list[str]:
    """The command lines of the processes that want the CPU."""
    found = []
    for entry in (path.name for path in Path("/proc").iterdir()):
        if entry.isdigit() and entry != "1":
            try:
                state = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[0]
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if state == "R" and words[0]:
                found.append(b" ".join(words).decode(errors="replace").strip()[:200])
    return found


def main() -> None:
    spec = json.loads((RUN / "spec.json").read_text())
    enter_root(spec)
    seed_random(spec["seed"])
    loopback_up()
    libc.sethostname(b"lab", 3)
    code = run(spec)
    Path(RUN / "exit").write_text(str(code if code >= 0 else 128 - code))


try:
    main()
except BaseException:
    traceback.print_exc()
    sys.stderr.flush()
finally:
    os.sync()
    libc.reboot(POWER_OFF)
