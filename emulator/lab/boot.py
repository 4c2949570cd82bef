"""Boot the lab, run one command in it, leave nothing behind. No root, no capability, no network is needed."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from emulator.errors import LabError, LabStalled, LabTimeout
from emulator.lab import build, build_image, compile_pyc
from emulator.lab.build_cache import Progress
from emulator.lab.cpu_usage import group_cpu_s
from emulator.lab.runtime import cpu_of_its_own, runtime_folder

START_NS = 10**18
"""The virtual clock's start: 2001-09-09 01:46:40 UTC, the same in every boot."""

STALL_CPU_S = 120.0
"""The lab counts as live-locked when it uses this much CPU time and its virtual clock does not advance."""

POLL_MS = 50
"""The time between two checks for output of the lab."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHONPATH = "/opt/longhaul/src:/opt/longhaul/site-packages"
SOURCES = tuple(build_image.PROJECT / name for name in ("emulator", "web", "topologies"))
"""All that the lab sees of the folder Longhaul is in: beside an installation are packages for another Python."""


@dataclass(frozen=True)
class CommandOutput:
    """A command that ended in the lab: its exit code (128 + n after signal n) and its output."""

    exit_code: int
    stdout: bytes
    stderr: bytes


Sink = Callable[[bytes], object]


def capture(argv: Sequence[str], **options: object) -> CommandOutput:
    """As `run`, with the output returned."""
    out, err = bytearray(), bytearray()
    code = run(argv, stdout=out.extend, stderr=err.extend, **options)  # type: ignore[arg-type]
    return CommandOutput(code, bytes(out), bytes(err))


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    real_time: bool = False,
    memory: str = "8G",
    seed: int = 1,
    timeout_s: float | None = None,
    start_ns: int = START_NS,
    stall_cpu_s: float = STALL_CPU_S,
    cpu: int | None = None,
    serial: tuple[Path, Path] | None = None,
    stdout: Sink | None = None,
    stderr: Sink | None = None,
    progress: Progress = lambda *_: None,
) -> int:
    """Run `argv` as root of a lab and return its exit code; builds the lab first when it is not there.

    `serial` are two FIFOs, to the lab and from it: inside they are /dev/ttyS0. Raises LabTimeout, LabStalled, or
    LabError with the console's last lines when the lab does not boot.
    """
    linux, root = _built(progress)
    here = (cwd or Path.cwd()).resolve()
    with runtime_folder() as runtime, cpu_of_its_own(cpu) as pinned:
        spec = _spec(argv, here, env or {}, seed, runtime, real_time=real_time)
        (runtime / "spec.json").write_text(json.dumps(spec))
        clock = [] if real_time else ["time-travel=inf-cpu", f"time-travel-start={start_ns}"]
        opened, line = ([], []) if serial is None else _serial(*serial)
        started = [*opened, *_pinned(pinned), *_kernel_argv(linux, root, runtime, memory)]
        command = [*started, *clock, "con0=null,fd:1", *line]
        sinks = (stdout or _to(sys.stdout.fileno()), stderr or _to(sys.stderr.fileno()))
        with _Guest(command, runtime) as guest:
            return guest.follow(sinks, timeout_s, None if real_time else stall_cpu_s, " ".join(argv))


def shell(memory: str = "8G") -> int:
    """An interactive bash on this terminal, in real time."""
    if not sys.stdin.isatty():
        raise LabError("a shell needs a terminal; for a command use: longhaul lab run -- COMMAND")
    linux, root = _built(lambda *_: None)
    with runtime_folder() as runtime:
        spec = _spec(["bash", "-i"], Path.cwd(), {}, 1, runtime, real_time=True) | {"terminal": True}
        (runtime / "spec.json").write_text(json.dumps(spec))
        command = [*_kernel_argv(linux, root, runtime, memory), "con0=fd:0,fd:1"]
        import termios

        before = termios.tcgetattr(0)
        try:
            subprocess.run(command, env=_host_env(runtime), check=False)
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        return int((runtime / "exit").read_text() or 0) if (runtime / "exit").exists() else 1


def _built(progress: Progress) -> tuple[Path, Path]:
    """The kernel and the image's root, and our own sources compiled for it."""
    linux, root = build.build_lab(progress)
    compile_pyc.compile_project(root, build_image.PROJECT)
    return linux, root


def _spec(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], seed: int, runtime: Path, *, real_time: bool
) -> dict[str, object]:
    """What init.py is told to run, and with what around it."""
    inside = {
        "PATH": PATH,
        "PYTHONPATH": PYTHONPATH,
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
        "LONGHAUL_LAB": "real" if real_time else "virtual",
        "LONGHAUL_SEED": str(seed),
        "PYTHONHASHSEED": str(seed % 2**32),
    }
    return {
        "run": str(runtime),
        "sources": [str(path) for path in SOURCES if path.exists()],
        "cwd": str(cwd),
        "argv": list(argv),
        "env": inside | dict(env),
        "seed": seed,
        "terminal": False,
    }


def _kernel_argv(linux: Path, root: Path, runtime: Path, memory: str) -> list[str]:
    """The kernel and its parameters; puts init.py where it finds it."""
    shutil.copy(Path(__file__).with_name("init.py"), runtime)
    return [
        str(linux), f"mem={memory}", "root=/dev/root", "rootfstype=hostfs", f"rootflags={root}", "ro", "quiet",
        "init=/lab/init", f"longhaul_run={runtime}", f"uml_dir={runtime}/", "con=null", "ssl=null",
        # No interface but lo: these drivers would make some unasked.
        "dummy.numdummies=0", "ifb.numifbs=0", "bonding.max_bonds=0", "fb_tunnels=none",
    ]  # fmt: skip


def _serial(inward: Path, outward: Path) -> tuple[list[str], list[str]]:
    """What stands before the kernel's command line, and behind it.

    The kernel names descriptors; a shell opens them, for the lab is started without any.
    """
    opening = 'to=$0 from=$1; shift; exec "$@" 8<>"$to" 9<>"$from"'
    return ["sh", "-c", opening, str(inward), str(outward)], ["ssl0=fd:8,fd:9"]


def _pinned(cpu: int | None) -> list[str]:
    """Die with the launcher; stay on one CPU: UML and what it traces would wake each other across CPUs otherwise.

    At fixed addresses where the machine allows it: UML's memory begins where its heap does, and repeats itself then.
    """
    fixed = ["setarch", "-R"] if _fixed_addresses() else []
    return ["setpriv", "--pdeathsig", "KILL", *fixed, *([] if cpu is None else ["taskset", "-c", str(cpu)])]


@cache
def _fixed_addresses() -> bool:
    """Whether personality(2) may switch address randomization off here; some containers forbid it."""
    return subprocess.run(["setarch", "-R", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0


def _host_env(runtime: Path) -> dict[str, str]:
    return {"PATH": PATH, "TMPDIR": str(runtime), "HOME": str(runtime)}


def _to(fd: int) -> Sink:
    """All that comes goes to a descriptor."""

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(fd, data) :]

    return write


class _Guest:
    """The running lab: its process group, the files it writes, and the watch over it."""

    def __init__(self, command: list[str], runtime: Path) -> None:
        self._runtime, self._offsets = runtime, {"stdout": 0, "stderr": 0}
        self._beat, self._beat_cpu_s = b"", 0.0
        self._console = (runtime / "console").open("wb")
        self._process = subprocess.Popen(
            command, env=_host_env(runtime), stdin=subprocess.DEVNULL, stdout=self._console,
            stderr=subprocess.STDOUT, process_group=0,
        )  # fmt: skip
        self._pidfd = os.pidfd_open(self._process.pid)

    def __enter__(self) -> _Guest:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._pidfd)
        self._console.close()

    def follow(self, sinks: tuple[Sink, Sink], timeout_s: float | None, stall_cpu_s: float | None, name: str) -> int:
        """Pass the output on until the lab is off. Returns the command's exit code."""
        started, looked = time.monotonic(), time.monotonic()
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        while self._process.poll() is None:
            self._forward(sinks)
            now = time.monotonic()
            if timeout_s is not None and now - started > timeout_s:
                raise LabTimeout(f"{name}: not done after {timeout_s:g} s; give it longer with --timeout")
            if stall_cpu_s is not None and now - looked > 1:
                looked = now
                self._check_stall(stall_cpu_s, name)
            ended.poll(POLL_MS)
        self._forward(sinks)
        code = self._runtime / "exit"
        if not code.exists():
            console = (self._runtime / "console").read_text(errors="replace").splitlines()[-8:]
            raise LabError("the lab ended before the command did:\n" + "\n".join(console))
        return int(code.read_text())

    def _forward(self, sinks: tuple[Sink, Sink]) -> None:
        for name, sink in zip(self._offsets, sinks, strict=True):
            with suppress(FileNotFoundError), (self._runtime / name).open("rb") as file:
                file.seek(self._offsets[name])
                while data := file.read(1 << 20):
                    self._offsets[name] += len(data)
                    sink(data)

    def _check_stall(self, stall_cpu_s: float, name: str) -> None:
        path, used = self._runtime / "heartbeat", group_cpu_s(self._process.pid)
        beat = str(path.stat().st_mtime_ns).encode() if path.exists() else b""
        if beat != self._beat:
            self._beat, self._beat_cpu_s = beat, used
        elif used - self._beat_cpu_s > stall_cpu_s:
            last = json.loads(path.read_bytes() or b"[]") if path.exists() else []
            wanted = "; ".join(last) or name
            raise LabStalled(
                f"{name}: {used - self._beat_cpu_s:.0f} s of CPU went by and the virtual clock stood still.\n"
                f"Wanting the CPU when it last moved: {wanted}.\nA program that waits must sleep, not spin; "
                "or use --real-time, or a larger --stall"
            )
