"""What `longhaul doctor` finds: each lack is planted on the real machine, and the real thing is asked."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.folders import ROOT

from emulator import __version__
from emulator.cli.main import main
from emulator.control import doctor
from emulator.control.doctor import PARTS, Finding
from emulator.errors import EXIT_NOT_AS_ASKED
from emulator.kernel import capabilities
from emulator.lab import boot, build_cache, build_kernel, runtime
from emulator.system import installation

WITHOUT_PTRACE = """
import ctypes, os, struct, sys
LOAD, EQUAL, RETURN, ALLOW, REFUSE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050001
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, 101), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program)), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Refuses ptrace(2), as a container's seccomp profile can."""


def one(part: str, check: str, found: object) -> Finding:
    (finding,) = [each for each in found if (each.part, each.check) == (part, check)]  # type: ignore[attr-defined]
    return finding


def told(*before: str, env: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """The findings of `longhaul doctor lab` by their check, run below another command."""
    command = [*before, sys.executable, "-m", "emulator", "doctor", "lab", "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, check=False, capture_output=True, text=True
    )
    assert done.returncode in (0, EXIT_NOT_AS_ASKED), done.stderr
    answer = json.loads(done.stdout)
    assert answer["runs"]["lab"] is (done.returncode == 0)
    return {finding["check"]: finding for finding in answer["findings"]}


def mounted(options: str) -> list[str]:
    """A command line that runs the rest with another /dev/shm."""
    return ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {options} none /dev/shm && exec "$@"', "sh"]


@pytest.fixture(scope="module")
def built() -> None:
    """The lab's kernel and image: the doctor builds nothing."""
    boot.built()


@pytest.mark.usefixtures("built")
def test_the_lab_boots_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "lab"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == "runs here: lab"
    assert "lab       boot       ok       a lab booted and ran a program" in lines


def test_a_container_without_ptrace() -> None:
    found = told(sys.executable, "-c", WITHOUT_PTRACE)
    assert found["ptrace"]["state"] == "missing"
    assert "Operation not permitted" in found["ptrace"]["seen"]
    assert "seccomp" in found["ptrace"]["fix"]
    assert "boot" not in found


@pytest.mark.parametrize(
    ("options", "check", "seen"),
    [("size=1g,noexec", "machine", "/dev/shm is mounted noexec"), ("size=64m", "memory", "of the guest's memory")],
)
def test_shared_memory_as_containers_have_it(options: str, check: str, seen: str) -> None:
    found = told(*mounted(options), env={"TMPDIR": "/dev/shm"})[check]
    assert found["state"] == "missing"
    assert seen in found["seen"]
    assert found["fix"] in ("export TMPDIR=/tmp", "export TMPDIR=/var/tmp")


@pytest.mark.usefixtures("built")
def test_a_lab_without_room_says_so() -> None:
    """The command itself, not the doctor."""
    argv = [*mounted("size=64m"), sys.executable, "-m", "emulator", "lab", "run", "--", "true"]
    env = {**os.environ, "TMPDIR": "/dev/shm"}
    done = subprocess.run(argv, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 4
    assert "of the guest's memory: a lab of 8 GiB needs 256 MiB" in done.stderr


def test_nothing_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert one("lab", "kernel", doctor.lab()).fix == "longhaul lab build"
    assert one("lab", "image", doctor.lab()).state == "weak"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not build_kernel.place().exists()
    found = one("lab", "kernel", doctor.lab())
    assert all(package in found.fix for package in build_cache.lacking(build_kernel.TOOLS))
    assert "bison" in found.fix
    assert one("lab", "image", doctor.lab()).state == "missing"


def test_yama_forbids_ptrace(tmp_path: Path) -> None:
    (tmp_path / "scope").write_text("3\n")
    found = one("lab", "machine", doctor.lab(yama=tmp_path / "scope"))
    assert found.fix == "sysctl -w kernel.yama.ptrace_scope=1"
    assert runtime.why_not() == []


def test_programs_that_are_missing_and_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert [each.state for each in doctor.programs()] == ["ok"] * 4
    broken = tmp_path / "iperf3"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    iperf3 = one("programs", "iperf3", doctor.programs())
    assert iperf3.seen == "`iperf3 --version` ended with 3"
    assert iperf3.fix.endswith("apt-get install --reinstall -y iperf3")
    broken.chmod(0o644)
    assert one("programs", "iperf3", doctor.programs()).state == "weak"
    assert one("programs", "ss", doctor.programs()).fix.endswith("apt-get install -y iproute2")
    assert one("ssh", "ssh", doctor.ssh()).fix.endswith("apt-get install -y openssh-client")


def test_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert one("engine", "binary", doctor.engine()).state == "ok"
    text = tmp_path / "text"
    text.write_text("no program")
    text.chmod(0o755)
    refusals = {str(tmp_path / "gone"): "No such file", str(text): "Exec format error", "/bin/true": "another program"}
    for binary, why in refusals.items():
        monkeypatch.setenv("LONGHAUL_WIRE", binary)
        found = one("engine", "binary", doctor.engine())
        assert found.state == "missing"
        assert found.seen.startswith(f"{binary}: ")
        assert why in found.seen
        assert found.fix


def test_netem(tmp_path: Path) -> None:
    release = os.uname().release
    module = tmp_path / "with" / release / "kernel/net/sched/sch_netem.ko.xz"
    module.parent.mkdir(parents=True)
    module.touch()
    (tmp_path / "without" / release).mkdir(parents=True)
    cures = {"none": "longhaul lab shell", "with": "modprobe sch_netem", "without": f"linux-modules-extra-{release}"}
    for folder, cure in cures.items():
        (found,) = doctor.netem(lambda: False, tmp_path / folder)
        assert found.state == "missing"
        assert found.fix.endswith(cure)
    assert [each.state for each in doctor.netem(lambda: None)] == ["unknown"]
    assert [each.state for each in doctor.netem(lambda: True)] == ["ok"]


def test_a_library_of_the_debian_package_comes_from_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(installation.PACKAGED))
    (found,) = doctor.figures("matplotless")
    assert found.fix.endswith("apt-get install -y python3-matplotless")


def test_what_an_image_lacks_comes_with_another_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is neither sudo in it nor a user who may install."""
    monkeypatch.setattr("sys.prefix", str(installation.PACKAGED))
    monkeypatch.setenv("container", installation.OURS)
    (found,) = doctor.figures("matplotless")
    written, _, builds = found.fix.partition(" | ")
    assert builds == "docker build -t longhaul-more -"
    lines = subprocess.check_output(["sh", "-c", written], text=True).splitlines()
    assert lines[0] == f"FROM longhaul:{__version__}"
    assert lines[2].endswith(" python3-matplotless")
    assert [line.split()[0] for line in lines] == ["FROM", "USER", "RUN", "USER"]
    assert "sudo" not in found.fix
    assert one("netem", "sch_netem", doctor.netem(lambda: None)).fix.startswith(
        "docker run --user 0 --cap-add NET_ADMIN"
    )


def test_somebody_elses_container_has_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(installation.PACKAGED))
    monkeypatch.setenv("container", "podman")
    assert installation.in_container()
    (found,) = doctor.figures("matplotless")
    assert found.fix.endswith("apt-get install -y python3-matplotless")


def test_without_a_folder_for_the_guests_memory_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """All three folders allow no programs; in a container, and on a machine of one's own."""
    mounts = "; ".join(f"mount -t tmpfs -o noexec none {folder}" for folder in runtime.ELSEWHERE)
    before = ["unshare", "-m", "sh", "-c", f'{mounts}; exec "$@"', "sh"]
    found = told(*before, env={"TMPDIR": "/tmp", "container": installation.OURS})["machine"]
    assert (found["seen"], found["fix"]) == ("/tmp is mounted noexec", "docker run --tmpfs /tmp:exec ...")
    monkeypatch.setattr(runtime, "ELSEWHERE", ("/proc",))
    monkeypatch.setattr(installation, "OF_CONTAINERS", ())
    monkeypatch.setenv("TMPDIR", "/nowhere")
    monkeypatch.delenv("container", raising=False)
    fix = one("lab", "machine", doctor.lab()).fix
    assert fix == "sudo mount -t tmpfs -o mode=1777 tmpfs /mnt && export TMPDIR=/mnt"


def test_sysctls_that_a_container_cannot_write() -> None:
    """A new namespace begins with IPv6, and its /proc/sys is read-only, as Docker's."""
    script = f"mount -o bind,ro /proc/sys /proc/sys && exec {sys.executable} -m emulator doctor engine --json"

    def found(first: str) -> dict[str, dict[str, Any]]:
        own = ["unshare", "--net", "--mount", "sh", "-c", first + script]
        done = subprocess.run(own, cwd=ROOT, check=False, capture_output=True, text=True)
        return {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}

    set_before = "; ".join(f"[ ! -e /proc/sys/{name} ] || echo {value} >/proc/sys/{name}"
                           for name, value in capabilities.SILENT.items())  # fmt: skip
    assert found("")["sysctls"]["state"] == "missing"
    assert "--sysctl net.ipv6.conf.default.disable_ipv6=1" in found("")["sysctls"]["fix"]
    assert "sysctls" not in found(f"{set_before}; ")


def test_a_matplotlib_that_is_too_old_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.6.3")
    (found,) = doctor.figures()
    assert (found.state, found.seen) == ("missing", "3.6.3 is installed, 3.8 or newer is needed")
    assert found.fix


def test_a_library_and_a_port() -> None:
    assert [each.state for each in doctor.figures()] == ["ok"]
    (found,) = doctor.figures("matplotless")
    assert (found.state, found.seen) == ("missing", "not installed")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        address = busy.getsockname()
        port = one("web", "port", doctor.web(address))
    assert port.state == "weak"
    assert port.fix == f"longhaul serve --listen 127.0.0.1:{address[1] + 1}"


def test_only_the_parts_that_are_asked_for_count(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor", "figures", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == {"figures": True}
    assert main(["doctor", "ssh", "figures"]) == EXIT_NOT_AS_ASKED
    out = capsys.readouterr().out
    assert out.endswith("does not run here: ssh\n")
    assert "fix: " in out
    assert main(["doctor", "teeth"]) == 2
    mistake = capsys.readouterr().err
    assert all(part in mistake for part in PARTS)
