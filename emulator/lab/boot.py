"""Boot the lab, run one command in it, leave nothing behind. No root, no capability, no network is needed."""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from emulator.errors import LabError, LabStalled, LabTimeout
from emulator.lab import boot_options, boundary, build, build_image, compile_pyc, lab_root, landlock, programs, runtime
from emulator.lab.boot_options import IN_LAB, MEMORY_BYTES, BootOptions, Sink
from emulator.lab.boundary import Exchange
from emulator.lab.build_cache import Progress
from emulator.lab.cpu_usage import group_cpu_s
from emulator.lab.kernel_version import SECCOMP
from emulator.lab.lab_root import LabRoot, RootChoice
from emulator.lab.landlock import Job
from emulator.lab.reports import Reports
from emulator.lab.runtime import cpu_of_its_own, runtime_folder
from emulator.system.clock import COUNTED, EXACT

SECCOMP_ON = ["seccomp=on"]
"""Not `auto`, which would take the other mode unseen where this one fails."""
POLL_MS = 50
"""The time between two checks for output of the lab."""
INSTEAD = "or use --real-time, or a larger --stall"
"""What else helps where the clock stands still: options of the commands that run one command in a lab."""
IMAGE, DEFAULTS = RootChoice(), BootOptions()
SOURCES = tuple(build_image.PROJECT / name for name in build_image.OWN)
"""All that the lab sees of the folder Longhaul is in: beside an installation are packages for another Python."""


class CommandOutput(Struct, frozen=True):
    """A command that ended in the lab: its exit code (128 + n after signal n) and its output."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def capture(argv: Sequence[str], options: BootOptions = DEFAULTS, choice: RootChoice = IMAGE) -> CommandOutput:
    """As `run`, with the output returned."""
    out, err = bytearray(), bytearray()
    code = run(argv, replace(options, stdout=out.extend, stderr=err.extend), choice)
    return CommandOutput(code, bytes(out), bytes(err))


def run(
    argv: Sequence[str],
    options: BootOptions = DEFAULTS,
    choice: RootChoice = IMAGE,
    progress: Progress = lambda *_: None,
) -> int:
    """Run `argv` as root of a lab and return its exit code; builds the lab first when it is not there.

    `choice` is where programs come from. Raises InputError, MissingError when the program is not there, LabTimeout,
    LabStalled, or LabError with the console's last lines when the lab does not boot.
    """
    root = built(progress, choice)
    options = replace(options, cwd=options.cwd.resolve() if options.cwd else None)
    inside = replace(root, choice=replace(choice, folder="")) if options.own else root
    boot_options.check(argv, options.cwd, [inside.image, *inside.folders])
    if choice.project:
        boot_options.check(argv, Path(choice.project), [root.image, *root.folders])
    programs.check([argv[0]], inside, options.cwd, options.env.get("PATH"))
    return _boot(root, argv, options)


def _boot(root: LabRoot, argv: Sequence[str], options: BootOptions) -> int:
    """As `run`, with what is built and checked."""
    with runtime_folder() as runtime, cpu_of_its_own(options.cpu) as pinned:
        parameters = _prepare(root, Exchange(runtime), options.memory_bytes, _spec(root, argv, options))
        travel = COUNTED if options.counted else EXACT
        clock = [] if options.real_time else [travel, f"time-travel-start={options.start_ns}"]
        clock += SECCOMP_ON if root.mode == SECCOMP else []
        lines = {} if options.serial is None else {8: str(options.serial[0]), 9: str(options.serial[1])}
        console = ["con0=null,fd:1", *(["ssl0=fd:8,fd:9"] if lines else [])]
        files = _allowed(root, runtime, options.cwd)
        job = Job((str(root.linux), *parameters, *clock, *console), os.getpid(), files, pinned, lines)
        sinks = (options.stdout or _to(sys.stdout.fileno()), options.stderr or _to(sys.stderr.fileno()))
        stall_cpu_s = None if options.real_time else options.stall_cpu_s
        with Reports(Exchange(runtime)) as reports, _Guest(job, reports, Exchange(runtime)) as guest:
            return guest.follow(sinks, options.timeout_s, stall_cpu_s, " ".join(argv))


def shell(folder: Path, root: LabRoot, memory_bytes: int = MEMORY_BYTES) -> int:
    """An interactive shell on this terminal, in real time; it may change the host's `folder`."""
    if not sys.stdin.isatty():
        raise LabError("a shell needs a terminal; for a command use: longhaul lab run -- COMMAND")
    folder = folder.resolve()
    name = "bash" if programs.found("bash", root) else "sh"
    boot_options.check([name], folder, [root.image, *root.folders])
    programs.check([name], root)
    with runtime_folder() as runtime:
        spec = _spec(root, [name, "-i"], BootOptions(folder, real_time=True)) | {"terminal": True}
        parameters = _prepare(root, exchange := Exchange(runtime), memory_bytes, spec)
        argv = (str(root.linux), *parameters, *(SECCOMP_ON if root.mode == SECCOMP else []), "con0=fd:0,fd:1")
        job = Job(argv, os.getpid(), _allowed(root, runtime, folder))
        import termios

        before = termios.tcgetattr(0)
        with Reports(exchange) as reports:
            try:
                subprocess.run(job.command(), env=_host_env(exchange), check=False)
            finally:
                termios.tcsetattr(0, termios.TCSADRAIN, before)
            code = reports.exit_code()
            return 1 if code is None else code


def built(progress: Progress = lambda *_: None, choice: RootChoice = IMAGE) -> LabRoot:
    """What a choice boots with, built if it is not there, and our own sources compiled for it. Raises LabError."""
    root = build.build_lab(progress, choice, script)
    if not choice.host:
        compile_pyc.compile_project(root.image, SOURCES)
    return root


def settled(progress: Progress, choice: RootChoice) -> RootChoice:
    """The choice with every kernel built, as ids. A run that keeps it measures the same kernels when it is resumed."""
    return build.settle(progress, choice, script)


def script(root: LabRoot, text: str, folder: Path) -> str:
    """Run a script of a build in a lab; see `build.Boot`."""
    said = bytearray()
    options = BootOptions(folder.resolve(), changes=True, stdout=said.extend, stderr=said.extend)
    _boot(root, ["sh", "-c", text], options)
    return said.decode(errors="replace")


def _spec(root: LabRoot, argv: Sequence[str], options: BootOptions) -> dict[str, object]:
    """What init.py is told to run, and with what around it."""
    inside = {
        "PATH": programs.search_path(root),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": lab_root.home(root.choice),
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
        IN_LAB: "real" if options.real_time else "virtual",
        "LONGHAUL_SEED": str(options.seed),
        "PYTHONHASHSEED": str(options.seed % 2**32),
    }
    return {
        "sources": [] if root.choice.host else [str(path) for path in _sources()],
        "own_folders": [str(path) for path in boundary.own_folders(root, _sources())],
        "layers": [str(root.layer)] if root.layer else [],
        "owners": root.owners,
        "programs": root.choice.folder,
        "files": lab_root.own_files(root.choice),
        "folder": str(options.cwd) if options.cwd else None,
        "argv": list(argv),
        "env": inside | lab_root.python_path(root.choice, own=options.own) | dict(options.env),
        "seed": options.seed,
        "terminal": False,
        "own": options.own,
        "changes": options.changes,
    }


def _sources() -> list[Path]:
    return [path for path in SOURCES if path.exists()]


def _prepare(root: LabRoot, exchange: Exchange, memory_bytes: int, spec: Mapping[str, object]) -> list[str]:
    """Fill the folders of the boot. Returns the kernel's parameters: of paths they hold only those of the boot."""
    exchange.make()
    shutil.copy(Path(__file__).with_name("init.py"), exchange.guest / "init.py")
    (exchange.guest / "spec.json").write_text(json.dumps(spec), "utf-8")
    exchange.image.symlink_to(root.image.resolve())
    start = ["init=/lab/init"]
    if root.choice.host:
        init = exchange.guest / "init"
        # The kernel reads a path without blanks, of 255 bytes at most, from the first line of a script.
        own = shlex.join([sys.executable, "-IS", str(exchange.guest / "init.py")])
        init.write_text(f'#!/bin/sh\nexec {own} "$@"\n', "utf-8")
        init.chmod(0o755)
        # Without devtmpfs the kernel finds init in /dev/shm of the host's root.
        start = [f"init={init}", "longhaul_host=1", "devtmpfs.mount=0"]
    return [
        f"mem={memory_bytes}", "root=/dev/root", "rootfstype=hostfs", f"rootflags={exchange.image}", "ro", "quiet",
        *start, f"longhaul_run={exchange.guest}", f"uml_dir={exchange.kernel}/", "con=null", "ssl=null",
        # No interface but lo: these drivers would make some unasked.
        "dummy.numdummies=0", "ifb.numifbs=0", "bonding.max_bonds=0", "fb_tunnels=none",
    ]  # fmt: skip


def _allowed(root: LabRoot, runtime: Path, folder: Path | None) -> dict[str, int] | None:
    """The files of the host for this boot; None where the host's kernel cannot refuse the others."""
    if not landlock.abi():
        return None
    sources = [*_sources(), *boundary.own_folders(root, _sources())]
    return boundary.allowed(
        root.linux, boundary.libraries(root.linux), boundary.roots(root), sources, Exchange(runtime), folder
    )  # fmt: skip


def _host_env(exchange: Exchange) -> dict[str, str]:
    return {"PATH": programs.PATH, "TMPDIR": str(exchange.kernel), "HOME": str(exchange.kernel)}


def _to(fd: int) -> Sink:
    """All that comes goes to a descriptor."""

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(fd, data) :]

    return write


class _Guest:
    """The running lab: its process group, what it reports, and the watch over it."""

    def __init__(self, job: Job, reports: Reports, exchange: Exchange) -> None:
        self._reports = reports
        self._beat_ns, self._beat_cpu_s = 0, 0.0
        self._process = subprocess.Popen(
            job.command(), env=_host_env(exchange), stdin=subprocess.DEVNULL, stdout=reports.console,
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
        if self._reports.ended_without_mapping():
            sinks[1](f"longhaul: {runtime.few_mappings()}\n".encode())
        if (code := self._reports.exit_code()) is None:
            why = runtime.crowded() or self._reports.console_end()
            raise LabError(f"the lab ended before the command did:\n{why}")
        return code

    def _forward(self, sinks: tuple[Sink, Sink]) -> None:
        for name, sink in zip(("stdout", "stderr"), sinks, strict=True):
            for data in self._reports.news(name):
                sink(data)

    def _check_stall(self, stall_cpu_s: float, name: str) -> None:
        used, beat_ns = group_cpu_s(self._process.pid), self._reports.beat_ns()
        if beat_ns != self._beat_ns:
            self._beat_ns, self._beat_cpu_s = beat_ns, used
        elif used - self._beat_cpu_s > stall_cpu_s:
            wanted = "; ".join(self._reports.busy_programs()) or name
            raise LabStalled(
                f"{name}: {used - self._beat_cpu_s:.0f} s of CPU went by and the virtual clock stood still.\n"
                f"Wanting the CPU when it last moved: {wanted}.\nA program that waits must sleep, not spin; {INSTEAD}"
            )
