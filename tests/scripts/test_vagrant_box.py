"""How the Vagrant box is built, and what its own Vagrantfile tells libvirt. Nothing is installed here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.folders import ROOT, TESTS

sys.path.insert(0, str(ROOT / "scripts"))
import debian_disk
import vagrant_box


def released(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


def test_a_missing_tool_is_told_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        vagrant_box.check(tmp_path, has=lambda name: name == "mke2fs")
    assert str(ended.value) == "the box needs mmdebstrap, qemu-img: apt-get install -y mmdebstrap qemu-utils"


@pytest.mark.parametrize(("names", "said"), [((), "has no longhaul"), (("longhaul_1.deb", "longhaul_2.deb"), "has 2 ")])
def test_there_is_one_package(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        vagrant_box.check(released(tmp_path, "longhaul-lab_1.deb", *names), has=lambda _: True)
    assert said in str(ended.value)
    assert str(ended.value).endswith(f"scripts/release --out {tmp_path}")


def test_it_needs_root(tmp_path: Path) -> None:
    folder = released(tmp_path, "longhaul_1.deb")
    vagrant_box.check(folder, has=lambda _: True, user=0)
    with pytest.raises(SystemExit, match="sudo scripts/vagrant/box"):
        vagrant_box.check(folder, has=lambda _: True, user=1000)


def test_the_entry_has_an_example() -> None:
    done = subprocess.run([ROOT / "scripts/vagrant/box", "--help"], capture_output=True, text=True, check=True)
    assert "sudo scripts/vagrant/box dist" in done.stdout


def test_what_is_asked_of_mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.append([*map(str, command)]))
    tree = tmp_path / "tree"
    (tree / "boot").mkdir(parents=True)
    for name in ("vmlinuz-6.9.1-cloud", "initrd.img-6.9.1-cloud", "vmlinuz-6.12.2-cloud", "initrd.img-6.12.2-cloud"):
        (tree / "boot" / name).write_text(name)
    vagrant_box.fill(tmp_path, Path("longhaul_1.deb"), "trixie", "mirror")
    bootstrap, disk, convert = asked
    assert bootstrap[-3:] == ["trixie", str(tree), "mirror"]
    (first,) = [option for option in bootstrap if option.startswith("--essential-hook")]
    assert bootstrap.index(first) < bootstrap.index('--customize-hook=rm -r "$1/packages"')
    assert disk[-2:] == [str(tmp_path / "disk.raw"), "10G"]
    assert "-c" in convert
    assert (tmp_path / "vmlinuz").read_text() == "vmlinuz-6.12.2-cloud"
    assert (tmp_path / "initrd.img").read_text() == "initrd.img-6.12.2-cloud"


def test_without_a_mirror_it_is_debians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.append([*map(str, command)]))
    debian_disk.bootstrap("trixie", tmp_path, "iperf3", "--variant=apt")
    assert asked[0][-3:] == ["--variant=apt", "trixie", str(tmp_path)]


def test_files_are_roots_and_programs_stay_programs(tmp_path: Path) -> None:
    source, root = tmp_path / "source", tmp_path / "root"
    (source / "etc").mkdir(parents=True)
    root.mkdir()
    for name, mode in (("program", 0o775), ("etc/rule", 0o664)):
        (source / name).touch()
        (source / name).chmod(mode)
    subprocess.run(["sh", "-c", f"umask 022; {debian_disk.copies(source)}", "sh", root], check=True)
    assert {name: (root / name).stat().st_mode & 0o777 for name in ("program", "etc/rule")} == {
        "program": 0o755, "etc/rule": 0o644,
    }  # fmt: skip
    assert (root / "etc/rule").stat().st_uid == os.geteuid()


def test_a_box_holds_what_vagrant_reads(tmp_path: Path) -> None:
    names = ["metadata.json", "Vagrantfile", "vmlinuz", "initrd.img", "box.img"]
    vagrant_box.pack(released(tmp_path, *names, "disk.raw"), tmp_path / "made.box")
    with tarfile.open(tmp_path / "made.box") as packed:
        assert packed.getnames() == names


def test_the_key_is_vagrants() -> None:
    """Where Vagrant is installed."""
    listed = sorted(Path("/usr/share").glob("**/vagrant-*/keys/vagrant.pub"))
    if not listed:
        pytest.skip("Vagrant is not installed: apt-get install vagrant-libvirt")
    assert listed[0].read_text().strip() == vagrant_box.KEY


@pytest.mark.skipif(not shutil.which("ruby"), reason="Ruby is not installed: apt-get install vagrant-libvirt")
@pytest.mark.parametrize(
    ("host", "kvm"), [({"KVM": "1"}, True), ({}, False), ({"KVM": "1", "LONGHAUL_KVM": "no"}, False)]
)
def test_its_vagrantfile_boots_the_kernel_beside_it(tmp_path: Path, host: dict[str, str], kvm: bool) -> None:
    shutil.copy(ROOT / "scripts/vagrant_box/Vagrantfile", tmp_path)
    evaluated = subprocess.run(
        ["ruby", TESTS / "support/vagrantfile.rb", tmp_path / "Vagrantfile"],
        env={"PATH": os.environ["PATH"], **host},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    calls: list[list[Any]] = [json.loads(line)[0] for line in evaluated.stdout.splitlines()]
    machine = {call[3]: call[4] for call in calls if call[:3] == ["vm", "provider", "libvirt"] and len(call) > 4}
    assert (machine["kernel"], machine["initrd"]) == (f"{tmp_path}/vmlinuz", f"{tmp_path}/initrd.img")
    assert machine["cmd_line"].startswith("root=/dev/vda rw net.ifnames=0 ")
    assert machine.get("driver", "kvm") == ("kvm" if kvm else "qemu")
