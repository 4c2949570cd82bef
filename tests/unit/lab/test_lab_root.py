"""Where programs come from, as a value: read from the options, every mistake at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator.errors import InputError
from emulator.lab import lab_facts, lab_root
from emulator.lab.boot_options import Reader
from emulator.lab.lab_root import LabRoot, RootChoice
from emulator.system import struct_json


def test_a_folder_must_look_like_a_root(tmp_path: Path) -> None:
    for text, why in (("/nowhere", "is no folder"), ("/", "use --host-root"), (str(tmp_path), "has neither bin nor")):
        with pytest.raises(ValueError, match=why):
            lab_root.parse_folder(text)
    (tmp_path / "usr/bin").mkdir(parents=True)
    assert lab_root.parse_folder(f"{tmp_path}/usr/..") == str(tmp_path)


def test_one_root_at_a_time_and_every_mistake_is_told() -> None:
    reader = Reader()
    lab_root.read(reader, "a b", "/nowhere", host=True)
    with pytest.raises(InputError) as error:
        reader.finish()
    assert [mistake.where for mistake in error.value.mistakes] == ["--root", "--host-root", "--with", "--root"]


def test_the_kernel_follows_from_the_packages_unless_it_is_given() -> None:
    assert RootChoice().config == RootChoice(packages=("nginx",)).config == "standard"
    assert RootChoice(packages=("nginx", "wireguard-tools")).config == "full"
    assert RootChoice(packages=("nftables",), kernel_config="standard").config == "standard"


@pytest.mark.parametrize(
    "choice", [RootChoice(), RootChoice(("nginx", "rsync"), kernel_config="full"), RootChoice(host=True)]
)
def test_a_run_keeps_it(choice: RootChoice) -> None:
    plain = json.loads(json.dumps(struct_json.to_plain(choice)))
    assert struct_json.from_plain(RootChoice, plain) == choice


def test_the_record_of_a_foreign_root_has_its_name_and_hashes(tmp_path: Path) -> None:
    for path, text in (
        ("etc/os-release", 'NAME=x\nPRETTY_NAME="Alpine Linux v3.22"\n'), ("lib/apk/db/installed", "P:busybox\n"),
        ("bin/busybox", "program"),
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "bin/busybox").chmod(0o755)
    root = LabRoot(RootChoice(folder=str(tmp_path)), Path("/cache/kernel-1/linux"), Path("/cache/image-2/root"))
    facts = lab_facts.of_root(root, ["busybox", "no-such"])
    assert facts["programs"] == f"--root {tmp_path}"
    assert facts["kernel"] == "kernel-1 (standard)"
    assert facts["system"] == "Alpine Linux v3.22"
    assert facts["/lib/apk/db/installed"] == lab_facts.digest(tmp_path / "lib/apk/db/installed")
    assert facts["program busybox"].startswith(f"{tmp_path}/bin/busybox, sha256:")
    assert "program no-such" not in facts


def test_a_root_that_says_nothing_of_itself_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "etc/os-release").mkdir(parents=True)
    root = LabRoot(RootChoice(folder=str(tmp_path)), Path("/k/linux"), Path("/i/root"))
    assert lab_facts.of_root(root)["system"] == "unknown"
