"""What runs on this machine and what does not, part by part, each finding with the one command that fixes it.

Every check asks the real thing: it boots a lab, starts the engine, adds a netem, listens on the port.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal

from msgspec import Struct

from emulator import units
from emulator.errors import LabError, MissingError
from emulator.hosts.tools import process
from emulator.kernel import capabilities, engine_client
from emulator.lab import boot, boundary, build, build_cache, build_image, build_kernel, landlock, runtime
from emulator.lab.boot_options import BootOptions
from emulator.lab.lab_root import RootChoice
from emulator.system import installation

State = Literal["ok", "weak", "unknown", "missing"]
"""weak: it runs, with a limit; unknown: only root may try; missing: it does not run."""

MODULES = Path("/lib/modules")
WEB_ADDRESS = ("127.0.0.1", 8642)
OLDEST_MATPLOTLIB = (3, 8)
LONGEST_S = 60.0
"""Within it a program tells its version and a lab boots, also on a busy machine."""

PROGRAMS = {
    "iperf3": ("iperf3", "--version"), "ip": ("iproute2", "-V"), "ss": ("iproute2", "-V"),
    "ping": ("iputils-ping", "-V"),
}  # fmt: skip
"""What measures on this machine and in a lab with --host-root: the Debian package, and the option for the version."""


class Finding(Struct, frozen=True):
    """One check of a part: its state, what was seen, and the command that fixes it ("" without one)."""

    part: str
    check: str
    state: State
    seen: str
    fix: str = ""


def examine(parts: Iterable[str]) -> Iterator[Finding]:
    """The findings of these parts (`PARTS`), each as soon as it is there."""
    for part in parts:
        yield from PARTS[part]()


def can_measure() -> bool:
    """Whether this machine has the programs that measure, so that a lab with --host-root can do without the image."""
    return all(map(shutil.which, PROGRAMS))


def lab(trace: Callable[[], str] = runtime.refused_trace, yama: Path = runtime.YAMA) -> Iterator[Finding]:
    """The kernel in virtual time: where its memory lies, ptrace, what is built, a boot, and Landlock."""
    obstacles = runtime.obstacles(yama)
    for one in obstacles:
        yield Finding("lab", "machine", "missing", one.what, one.command)
    if not obstacles:
        yield _room()
        yield (traced := _traced(trace()))
    yield from (files := [_kernel(), _image()])
    if not obstacles and traced.state == "ok" and files[0].state == "ok":
        yield _boot()
    yield _closed(landlock.abi())


def _room() -> Finding:
    folder = runtime.parent()
    if crowded := runtime.crowded():
        return Finding("lab", "memory", "missing", crowded.what, crowded.command)
    size = units.format_size(runtime.free_bytes(folder) >> 20 << 20)
    return Finding("lab", "memory", "ok", f"{folder} has room for {size} and allows programs")


def _traced(why: str) -> Finding:
    if why:
        seen = f"ptrace is refused: {why}; in a container its seccomp profile has to allow it"
        return Finding("lab", "ptrace", "missing", seen, "docker run --security-opt seccomp=unconfined ...")
    return Finding("lab", "ptrace", "ok", "a process may be traced")


def _kernel() -> Finding:
    linux = build_kernel.place() / "linux"
    if linux.exists():
        return Finding("lab", "kernel", "ok", f"{linux}, from {build_kernel.PACKAGE} {build_kernel.source_version()}")
    if lacking := build_cache.lacking(build_kernel.TOOLS):
        return Finding(
            "lab", "kernel", "missing", f"not built, and it needs {', '.join(lacking)}", installation.apt(*lacking)
        )
    return Finding("lab", "kernel", "missing", "not built", "longhaul lab build")


def _image() -> Finding:
    root = build_image.place() / "root"
    if root.exists():
        return Finding("lab", "image", "ok", str(root))
    if can_measure():
        seen = "not built: --host-root runs this machine's programs without it"
        return Finding("lab", "image", "weak", seen, "longhaul lab build")
    return Finding("lab", "image", "missing", "not built", "longhaul lab build")


def _boot() -> Finding:
    """Boot a lab with what is built already: the image, else this machine's own root."""
    choice = RootChoice(host=not (build_image.place() / "root").exists())
    assert build.ready(choice)
    said = bytearray()
    try:
        code = boot.run(["true"], BootOptions(timeout_s=LONGEST_S, stdout=said.extend, stderr=said.extend), choice)
    except LabError as error:
        return Finding("lab", "boot", "missing", " ".join(str(error).split()))
    if code:
        return Finding("lab", "boot", "missing", f"`true` ended with {code}: {said.decode(errors='replace').strip()}")
    return Finding("lab", "boot", "ok", f"a lab booted{' with --host-root' * choice.host} and ran a program")


def _closed(version: int) -> Finding:
    if weak := boundary.weaknesses(version):
        return Finding("lab", "Landlock", "weak", "; ".join(weak))
    return Finding("lab", "Landlock", "ok", f"version {version} closes a lab off from this machine's files")


def programs() -> Iterator[Finding]:
    """The programs that measure: iperf3, iproute2, ping."""
    for name, (package, option) in PROGRAMS.items():
        yield _program("programs", name, package, option)


def ssh() -> Iterator[Finding]:
    """The client that reaches hosts."""
    yield _program("ssh", "ssh", "openssh-client", "-V")


def _program(part: str, name: str, package: str, option: str) -> Finding:
    try:
        told = process.run([name, option], LONGEST_S)
    except MissingError:
        return Finding(part, name, "missing", "not installed", installation.apt(package))
    except OSError as error:
        return Finding(part, name, "weak", f"you may not run it here ({error.strerror}); root may, as in the lab")
    if told.exit_code:
        seen = f"`{name} {option}` ended with {told.exit_code}"
        return Finding(part, name, "missing", seen, installation.as_root(f"apt-get install --reinstall -y {package}"))
    lines = f"{told.stdout}\n{told.stderr}".split("\n")
    return Finding(part, name, "ok", next((line.strip() for line in lines if line.strip()), "it told no version"))


def netem(try_netem: Callable[[], bool | None] = capabilities.try_netem, modules: Path = MODULES) -> Iterator[Finding]:
    """The kernel's own emulation, for lanes on this machine."""
    release = os.uname().release
    has = try_netem()
    if has:
        yield Finding("netem", "sch_netem", "ok", f"Linux {release} has it")
    elif has is None:
        yield Finding("netem", "sch_netem", "unknown", "only root may try", _asked_as_root("netem"))
    elif not (modules / release).is_dir():
        seen = f"Linux {release} has neither netem nor modules: lanes use the wire engine, the lab its own kernel"
        yield Finding("netem", "sch_netem", "missing", seen, "longhaul lab shell")
    elif any((modules / release).rglob("sch_netem.ko*")):
        yield Finding(
            "netem", "sch_netem", "missing", "its module is not loaded", installation.as_root("modprobe sch_netem")
        )
    else:
        seen = f"the modules of Linux {release} lack it"
        yield Finding("netem", "sch_netem", "missing", seen, installation.apt(f"linux-modules-extra-{release}"))
    yield from _sysctls("netem")


def engine() -> Iterator[Finding]:
    """The wire engine, which emulates where the kernel has no netem."""
    binary = engine_client.program()
    if why := engine_client.refused():
        fix = str(installation.CLONE) if installation.CLONE.exists() else engine_client.BUILD
        yield Finding("engine", "binary", "missing", f"{binary}: {why}", fix)
        return
    yield Finding("engine", "binary", "ok", binary)
    if os.geteuid():
        yield Finding("engine", "rights", "unknown", "only root may move frames", _asked_as_root("engine"))
    yield from _sysctls("engine")


def _asked_as_root(part: str) -> str:
    if installation.in_container():
        return f"docker run --user 0 --cap-add NET_ADMIN ... doctor {part}"
    return f"sudo longhaul doctor {part}"


def _sysctls(part: str) -> Iterator[Finding]:
    """Whether lanes can be silenced: a container's /proc/sys is read-only."""
    if os.geteuid() == 0 and (options := capabilities.sysctl_options()):
        seen = "/proc/sys is read-only, and lanes need other values"
        yield Finding(part, "sysctls", "missing", seen, f"docker run {options} ...")


def figures(library: str = "matplotlib") -> Iterator[Finding]:
    """The figures of reports: they need a newer matplotlib than Debian 12's."""
    yield _library("figures", library, OLDEST_MATPLOTLIB)


def web(address: tuple[str, int] = WEB_ADDRESS) -> Iterator[Finding]:
    """The API and the pages: `longhaul serve`."""
    yield _library("web", "flask")
    host, port = address
    try:
        socket.create_server(address).close()
    except OSError as error:
        seen, fix = f"{host}:{port}: {error.strerror}", f"longhaul serve --listen {host}:{port + 1}"
        yield Finding("web", "port", "weak", seen, fix)
        return
    yield Finding("web", "port", "ok", f"{host}:{port} is free")


def _library(part: str, name: str, oldest: tuple[int, int] = (0, 0)) -> Finding:
    seen = "not installed"
    if importlib.util.find_spec(name):
        has = metadata.version(name)
        if tuple(map(int, has.split(".")[:2])) >= oldest:
            return Finding(part, name, "ok", f"installed for {sys.executable}")
        seen = f"{has} is installed, {'.'.join(map(str, oldest))} or newer is needed"
    return Finding(part, name, "missing", seen, installation.library(name))


PARTS: dict[str, Callable[[], Iterator[Finding]]] = {
    "lab": lab, "programs": programs, "netem": netem, "engine": engine, "ssh": ssh, "figures": figures, "web": web,
}  # fmt: skip
"""The parts in the order in which they are shown."""
