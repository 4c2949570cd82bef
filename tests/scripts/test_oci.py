"""The OCI images: what is asked of mmdebstrap and buildah, what the bill of materials says, what a container is given.

tests/bench/oci.py builds the images and runs them.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.containers import Run, filters, specification
from support.folders import ROOT

from emulator import __version__

sys.path.insert(0, str(ROOT / "scripts"))
import release_oci
import sbom

STATUS = b"""\
Package: bash
Status: install ok installed
Version: 5.2.37-2
Description: GNU Bourne Again SHell
 Status: deinstall ok config-files

Package: old
Status: deinstall ok config-files
Version: 1.0

Package: libstdc++6
Status: install ok installed
Version: 2:14.2.0+really-19
"""
RULES: dict[str, dict[str, Any]] = {
    "read": {}, "clone3": {"excludes": {"caps": ["CAP_SYS_ADMIN"]}},
    "chroot": {"includes": {"caps": ["CAP_SYS_CHROOT"]}},
    "s390_runtime_instr": {"includes": {"arches": ["s390x"]}}, "modify_ldt": {"includes": {"arches": ["amd64", "x32"]}},
    "tgkill": {"excludes": {"arches": ["amd64"]}}, "ptrace": {"includes": {"minKernel": "4.8"}, "args": None},
}  # fmt: skip
PROFILE = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "archMap": [
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]},
    ],
    "syscalls": [{"names": [name], "action": "SCMP_ACT_ALLOW", **rule} for name, rule in RULES.items()],
}
CONFIGURED = {
    "config": {
        "User": "65534:65534", "Env": ["PATH=/bin", "TMPDIR=/tmp"], "Entrypoint": ["/usr/bin/longhaul"],
        "Cmd": ["--help"], "WorkingDir": "/work",
    }
}  # fmt: skip


def test_a_missing_tool_is_told_with_its_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        release_oci.check_tools(has=lambda name: name == "unshare")
    said = str(ended.value)
    assert "the images need mmdebstrap, buildah" in said
    assert "apt-get install -y" in said
    assert {"buildah", "mmdebstrap"} <= set(said.split("install -y ")[1].split())
    assert "util-linux" not in said


def test_nothing_is_built_where_a_tool_is_missing(tmp_path: Path) -> None:
    """The whole command: it ends before it builds a wheel."""
    (tmp_path / "git").symlink_to("/usr/bin/git")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/release_build.py", "--oci", "--out", tmp_path / "dist"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the images need " in done.stderr
    assert not (tmp_path / "dist").exists()


def test_apt_installs_from_the_folder_of_our_packages(tmp_path: Path) -> None:
    package = made_package(tmp_path)
    release_oci.repository(tmp_path / "packages", [package])
    index = (tmp_path / "packages/Packages").read_text()
    fields = dict(line.split(": ", 1) for line in index.strip().splitlines())
    assert fields["Package"] == "hello"
    assert (tmp_path / "packages" / fields["Filename"]).read_bytes() == package.read_bytes()
    summed = subprocess.check_output(["sha256sum", package], text=True).split()[0]
    assert (fields["SHA256"], fields["Size"]) == (summed, str(package.stat().st_size))


def made_package(folder: Path) -> Path:
    control = folder / "hello/DEBIAN/control"
    control.parent.mkdir(parents=True)
    control.write_text("Package: hello\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: hello\n")
    subprocess.run(["dpkg-deb", "--build", folder / "hello", folder / "hello.deb"], check=True, capture_output=True)
    return folder / "hello.deb"


def test_one_archive_of_a_day_is_the_only_one() -> None:
    *debian, own = release_oci.sources(Path("/made/packages"), None)
    assert len(debian) == 3
    assert own == "deb [trusted=yes] copy:/made/packages ./"
    one, ours = release_oci.sources(
        Path("/made/packages"), "http://snapshot.debian.org/archive/debian/20260101T000000Z"
    )
    assert ours == own
    assert one.startswith("deb [check-valid-until=no] http://snapshot.debian.org/")


def test_the_lab_runs_as_nobody_and_the_appliance_as_root() -> None:
    lab, appliance = map(release_oci.configuration, release_oci.IMAGES)
    assert lab[lab.index("--user") + 1] == "65534:65534"
    assert appliance[appliance.index("--user") + 1] == "0:0"
    assert json.loads(appliance[appliance.index("--cmd") + 1]) == ["serve"]
    shared = release_oci.shared_configuration("c0ffee")
    assert json.loads(shared[shared.index("--entrypoint") + 1]) == ["/usr/bin/longhaul"]
    assert {f"org.opencontainers.image.version={__version__}", "org.opencontainers.image.revision=c0ffee"} <= set(
        shared
    )
    # buildah keeps what the first image asked for: what differs has to be named for both.
    assert [part for part in lab if part.startswith("--")] == [part for part in appliance if part.startswith("--")]


def test_the_same_image_is_the_same_archive(tmp_path: Path) -> None:
    """Made at another time, in another order, by another user's umask."""
    archives = []
    for number, names in enumerate([("a", "b/c"), ("b/c", "a")]):
        layout = tmp_path / f"layout{number}"
        for name in names:
            (layout / name).parent.mkdir(parents=True, exist_ok=True)
            (layout / name).write_text(name)
            (layout / name).chmod(0o600 if number else 0o664)
            os.utime(layout / name, (number, number))
        archives.append(tmp_path / f"{number}.tar")
        release_oci.pack(layout, archives[-1], 1_700_000_000)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as packed:
        assert [(one.name, one.mtime) for one in packed] == [(name, 1_700_000_000) for name in ("a", "b", "b/c")]


def test_only_what_is_installed_is_in_the_image() -> None:
    found = release_oci.packages_of(io.BytesIO(STATUS))
    assert found == [("bash", "5.2.37-2"), ("libstdc++6", "2:14.2.0+really-19")]


def test_the_bill_of_materials_tells_what_is_in_the_images() -> None:
    installed = [*release_oci.packages_of(io.BytesIO(STATUS)), ("longhaul", "1"), ("longhaul-lab", "1")]
    names = [release_oci.file_name(image) for image in release_oci.IMAGES]
    bill = json.loads(sbom.document(ROOT, 0, [], [(name, "ab" * 32, installed) for name in names]))
    parts = {part["bom-ref"]: part for part in bill["components"]}
    assert len(parts) == len(bill["components"])
    held = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    for name in names:
        assert parts[name]["type"] == "container"
        assert parts[name]["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
        libraries = [f"pkg:deb/debian/{one}" for one in ("bash@5.2.37-2", "libstdc++6@2:14.2.0%2Breally-19")]
        assert held[name] == ["longhaul", *libraries]
        assert set(libraries) <= parts.keys()
    assert not set(libraries) & set(held["longhaul"]), "Longhaul needs none of the image's Debian"
    assert json.loads(sbom.document(ROOT, 0, [], []))["components"] == [
        part for part in bill["components"] if part["bom-ref"] not in (*names, *libraries)
    ]


@pytest.mark.parametrize(
    ("capabilities", "allowed"),
    [
        ((), {"read", "clone3", "modify_ldt", "ptrace"}),
        (("SYS_CHROOT",), {"read", "clone3", "modify_ldt", "ptrace", "chroot"}),
        (("SYS_ADMIN",), {"read", "modify_ldt", "ptrace"}),
    ],
)
def test_the_profile_is_that_of_this_processor_and_these_capabilities(
    capabilities: tuple[str, ...], allowed: set[str]
) -> None:
    made = filters(PROFILE, capabilities)
    assert {name for rule in made["syscalls"] for name in rule["names"]} == allowed
    assert made["architectures"] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]
    assert all(rule.keys() <= {"names", "action", "args", "errnoRet"} for rule in made["syscalls"])


def test_a_container_has_what_docker_gives_by_default() -> None:
    made = specification(Path("/root"), CONFIGURED, Run(["demo"], env={"TMPDIR": "/x"}), PROFILE)
    process = made["process"]
    assert process["args"] == ["/usr/bin/longhaul", "demo"]
    assert process["env"] == ["PATH=/bin", "TMPDIR=/x"]
    assert process["cwd"] == "/work"
    assert process["capabilities"].keys() == {"bounding"}, "who is not root has none"
    shm = next(one for one in made["mounts"] if one["destination"] == "/dev/shm")
    assert {"noexec", "size=67108864"} <= set(shm["options"])
    assert {"/proc/sys"} <= set(made["linux"]["readonlyPaths"])


def test_root_has_the_capabilities_that_are_asked_for_and_no_other() -> None:
    made = specification(Path("/root"), CONFIGURED, Run(user=(0, 0), capabilities=["NET_ADMIN"]), PROFILE)
    assert set(map(tuple, made["process"]["capabilities"].values())) == {("CAP_NET_ADMIN",)}
    assert made["process"]["args"] == ["/usr/bin/longhaul", "--help"]
