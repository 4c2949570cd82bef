"""Containers of OCI images under runc, with what Docker's default gives them and no more."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DOCKERS_CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
MASKED = ("asound", "acpi", "kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug", "scsi")
READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
"""Below /proc."""
SHM_BYTES = 64 << 20


@dataclass(frozen=True)
class Run:
    """What the user of a container asks for, in docker's words: `--user`, `--cap-add` and so on."""

    command: Sequence[str] = ()
    user: tuple[int, int] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    capabilities: Sequence[str] = DOCKERS_CAPABILITIES
    no_new_privileges: bool = False
    read_only: bool = False
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[Path, str] = field(default_factory=dict)
    network: Path | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)


def unpack(archive: Path, folder: Path) -> dict[str, Any]:
    """The image's file system in `folder`; returns its configuration. The digests are checked."""
    with tarfile.open(archive) as packed:

        def blob(digest: str) -> bytes:
            member = packed.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert member
            content = member.read()
            assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
            return content

        index = packed.extractfile("index.json")
        assert index
        (listed,) = json.load(index)["manifests"]
        manifest = json.loads(blob(listed["digest"]))
        folder.mkdir(parents=True)
        for layer in manifest["layers"]:
            command = ["tar", "-C", folder, "--warning=no-timestamp", "--numeric-owner", "-xpzf", "-"]
            subprocess.run(command, input=blob(layer["digest"]), check=True)
        configuration: dict[str, Any] = json.loads(blob(manifest["config"]["digest"]))
        return {**configuration, "name": listed["annotations"]["org.opencontainers.image.ref.name"]}


def filters(profile: dict[str, Any], capabilities: Sequence[str]) -> dict[str, Any]:
    """The seccomp filters that Docker makes of its profile on x86-64 for a container with these capabilities."""
    held = {f"CAP_{name}" for name in capabilities}
    rules = []
    for rule in profile["syscalls"]:
        wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
        fits = "amd64" in wanted.get("arches", ["amd64"]) and set(wanted.get("caps", ())) <= held
        if fits and not held & set(unwanted.get("caps", ())) and "amd64" not in unwanted.get("arches", ()):
            kept = {name: rule[name] for name in ("names", "action", "args", "errnoRet") if rule.get(name)}
            rules.append(kept)
    arches = next(one for one in profile["archMap"] if one["architecture"] == "SCMP_ARCH_X86_64")
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
        "architectures": [arches["architecture"], *arches["subArchitectures"]],
        "syscalls": rules,
    }


def specification(root: Path, image: dict[str, Any], run: Run, profile: dict[str, Any]) -> dict[str, Any]:
    """The container for runc: Docker's mounts, namespaces and paths, without limits that need cgroups."""
    asked = image["config"]
    uid, gid = run.user or tuple(map(int, asked["User"].split(":")))
    held = [f"CAP_{name}" for name in run.capabilities]
    # As in the kernel when root executes a program, and when another user does.
    sets = {"bounding": held} | ({"effective": held, "permitted": held} if uid == 0 else {})
    env = dict(pair.split("=", 1) for pair in asked["Env"]) | run.env
    network = {"type": "network"} | ({"path": str(run.network)} if run.network else {})
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": uid, "gid": gid},
            "args": [*asked["Entrypoint"], *(run.command or asked["Cmd"])],
            "env": [f"{name}={value}" for name, value in env.items()],
            "cwd": run.workdir or asked["WorkingDir"],
            "capabilities": sets,
            "noNewPrivileges": run.no_new_privileges,
        },
        "root": {"path": str(root), "readonly": run.read_only},
        "hostname": "container",
        "mounts": list(_mounts(run)),
        "linux": {
            "namespaces": [network, *({"type": kind} for kind in ("pid", "ipc", "uts", "mount", "cgroup"))],
            "sysctl": dict(run.sysctls),
            "seccomp": filters(profile, run.capabilities),
            "maskedPaths": [*(f"/proc/{name}" for name in MASKED), "/sys/firmware"],
            "readonlyPaths": [f"/proc/{name}" for name in READ_ONLY],
        },
    }


def _mounts(run: Run) -> Iterator[dict[str, Any]]:
    quiet = ["nosuid", "noexec", "nodev"]
    yield _mount("/proc", "proc", "proc", quiet)
    yield _mount("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"])
    yield _mount("/dev/pts", "devpts", "devpts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"])
    yield _mount("/sys", "sysfs", "sysfs", [*quiet, "ro"])
    yield _mount("/dev/mqueue", "mqueue", "mqueue", quiet)
    yield _mount("/dev/shm", "tmpfs", "shm", [*quiet, "mode=1777", f"size={SHM_BYTES}"])
    for folder, options in run.tmpfs.items():
        # Docker's own options; the user's go last.
        yield _mount(folder, "tmpfs", "tmpfs", [*quiet, "mode=1777", *options.split(",")])
    for source, target in run.volumes.items():
        yield _mount(target, "bind", str(source), ["rbind", "rw"])


def _mount(target: str, kind: str, source: str, options: list[str]) -> dict[str, Any]:
    return {"destination": target, "type": kind, "source": source, "options": options}


class Runtime:
    """runc with a state of its own below `folder`, for containers of one unpacked image."""

    def __init__(self, folder: Path, root: Path, image: dict[str, Any], profile: dict[str, Any]) -> None:
        self._folder, self._root, self._image, self._profile = folder, root, image, profile

    def run(self, asked: Run, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        """A container from its start to its end."""
        with self._bundle(asked) as name:
            command = [*self._runc(), "run", "--bundle", self._folder / name, name]
            return _done(command, timeout_s)

    @contextmanager
    def started(self, asked: Run) -> Iterator[Container]:
        """A container while the body runs."""
        with self._bundle(asked) as name:
            log = (self._folder / name / "log").open("w+")
            command = [*self._runc(), "run", "--bundle", self._folder / name, name]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
                try:
                    yield Container(self._runc(), name, self._folder / name / "log", process)
                finally:
                    subprocess.run([*self._runc(), "kill", name, "KILL"], check=False, capture_output=True)
                    process.wait(60)
                    log.close()

    @contextmanager
    def _bundle(self, asked: Run) -> Iterator[str]:
        name = f"longhaul-{len(list(self._folder.iterdir()))}"
        (self._folder / name).mkdir()
        made = specification(self._root, self._image, asked, self._profile)
        (self._folder / name / "config.json").write_text(json.dumps(made))
        try:
            yield name
        finally:
            subprocess.run([*self._runc(), "delete", "--force", name], check=False, capture_output=True)

    def _runc(self) -> list[str | Path]:
        return ["runc", "--root", self._folder / "state"]


@dataclass(frozen=True)
class Container:
    """A container that runs."""

    runc: list[str | Path]
    name: str
    log: Path
    process: subprocess.Popen[bytes]

    def stop(self, timeout_s: float) -> int:
        """As `docker stop`; the exit code. Raises TimeoutExpired when it does not end on SIGTERM."""
        subprocess.run([*self.runc, "kill", self.name, "TERM"], check=True)
        return self.process.wait(timeout_s)

    def exec(self, *command: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """A command in it, as `docker exec`."""
        return _done([*self.runc, "exec", self.name, *command], timeout_s)


def _done(command: list[str | Path], timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
    )
