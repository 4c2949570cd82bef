"""Kernels that are built: named, listed, chosen; the standard one keeps its folder and is marked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import tiny_linux
from support.stored_kernels import CONTROL, RECORD, store

from emulator.cli import main
from emulator.errors import InputError, LabError
from emulator.experiment.sweep_runner import LAB_ALGORITHMS
from emulator.lab import boot, build, build_image, build_kernel, kernel_choice, kernel_store, lab_facts
from emulator.lab.boot_options import Reader
from emulator.lab.kernel_store import StoredKernel
from emulator.lab.lab_root import LabRoot, RootChoice


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/longhaul"


def test_a_record_is_written_and_read_back() -> None:
    folder = store("kernel-0123456789ab", RECORD)
    assert kernel_store.record_of(folder) == RECORD
    (folder / "kernel.json").write_text('{"version": 7}')
    with pytest.raises(LabError, match="is spoilt"):
        kernel_store.record_of(folder)


def test_a_name_moves_to_the_kernel_that_was_built_last() -> None:
    one = store("kernel-0123456789ab", RECORD, "mine", "also")
    other = store("kernel-ba9876543210", RECORD, "mine")
    assert kernel_store.names() == {"also": one.name, "mine": other.name}
    assert [kernel.names for kernel in kernel_store.every()] == [("also",), ("mine",)]
    (other / "linux").unlink()
    assert kernel_store.names() == {"also": one.name}, "a kernel that was removed has no name"
    with pytest.raises(ValueError, match="there is no kernel 'mine': use standard or also"):
        kernel_store.find("mine")
    with pytest.raises(LabError, match="is not there any more"):
        kernel_store.folder_of(other.name)


@pytest.mark.parametrize("text", ["6.12", "standard", "full", "kernel-0123456789ab", "a/b", "", "-x", "x" * 41])
def test_a_name_of_longhauls_own_and_one_with_odd_letters_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        kernel_store.check_name(text)


def test_the_standard_kernel_is_listed_and_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lab", "kernels"]) == 0
    assert "no kernel is built yet: longhaul lab build" in capsys.readouterr().out
    store(build_kernel.place().name, None)
    store("kernel-0123456789ab", RECORD, "seven")
    assert main.main(["lab", "kernels"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["name", "standard", "seven"]
    assert (lines[1][1], "ptrace" in lines[1], "seccomp" in lines[2], "7.2.13" in lines[2]) == ("*", True, True, True)
    assert main.main(["lab", "kernels", "--json"]) == 0
    own, seven = json.loads(capsys.readouterr().out)
    assert (own["default"], seven["default"], own["config"], own["congestion_controls"]) == (
        True, False, "standard", list(LAB_ALGORITHMS),
    )  # fmt: skip
    assert (seven["names"], seven["mode"], seven["obsolete"]) == (["seven"], "seccomp", {"0002-y": "gone"})


def test_a_choice_is_read_with_every_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, two = tmp_path / "bad.c", tmp_path / "two.c"
    bad.write_text(CONTROL.format(name="cubic"))
    (tmp_path / "one.c").write_text(CONTROL.format(name="mine"))
    two.write_text(CONTROL.format(name="mine"))
    (tmp_path / "x.patch").write_text("no patch")
    code = main.main([
        "lab", "build", "--kernel", "nine", "--cc-source", str(bad), "--patch", str(tmp_path / "x.patch"),
        "--config", "nowhere", "--name", "6.12",
    ])  # fmt: skip
    said = capsys.readouterr().err
    assert code == 2
    for text in ("there is no kernel 'nine'", "'cubic' already", "is no patch", "'nowhere' cannot be read", "--name"):
        assert text in said, text
    assert main.main(["lab", "build", "--cc-source", str(tmp_path / "one.c"), "--cc-source", str(two)]) == 2
    assert "two files define the congestion control mine: give each another .name" in capsys.readouterr().err
    (tmp_path / "dash.c").write_text(CONTROL.format(name="my-own"))
    two.write_text(CONTROL.format(name="my_own"))
    assert main.main(["lab", "build", "--cc-source", str(tmp_path / "dash.c"), "--cc-source", str(two)]) == 2
    assert "two files define the congestion control my-own or my_own" in capsys.readouterr().err


def test_the_congestion_controls_of_a_choice(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text(CONTROL.format(name="mine"))
    choice = RootChoice(cc_sources=(str(tmp_path / "one.c"),))
    assert kernel_choice.congestion_controls(choice, ("reno", "cubic")) == ("reno", "cubic", "mine")
    store("kernel-0123456789ab", RECORD, "seven")
    named = RootChoice(kernel="seven")
    assert kernel_choice.congestion_controls(named, ("cubic",)) == ("bbr", "reno")
    with pytest.raises(ValueError, match="seven is built already, and nothing can be added to it"):
        kernel_choice.request(replace(named, cc_sources=choice.cc_sources))


def never(*_: object) -> str:
    pytest.fail("nothing is to be built")


def test_a_name_and_the_series_of_the_standard_kernel_need_no_build() -> None:
    folder = store("kernel-0123456789ab", RECORD, "seven")
    for text, id in (("seven", folder.name), (folder.name, folder.name), ("6.12", "")):
        settled = kernel_choice.settled(RootChoice(kernel=text), lambda *_: None, never)
        assert settled == RootChoice(kernel=id)
        assert kernel_choice.is_settled(settled)
    assert not kernel_choice.is_settled(RootChoice(kernel="seven"))


def test_the_standard_kernel_is_chosen_by_the_name_that_the_list_gives_it() -> None:
    store("kernel-0123456789ab", RECORD, "seven")
    assert kernel_choice.parse_kernel("standard") == kernel_choice.STANDARD_SERIES
    assert kernel_choice.parse_kernels("standard,seven") == (("6.12", "6.12"), ("seven", "seven"))
    with pytest.raises(ValueError, match=r"6\.12 is named twice"):
        kernel_choice.parse_kernels("standard,6.12")
    with pytest.raises(ValueError, match="'full' is a configuration of the standard kernel: use --kernel-config full"):
        kernel_choice.parse_kernel("full")
    with pytest.raises(ValueError, match="there is no kernel 'nine': use standard or seven"):
        kernel_choice.parse_kernel("nine")


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that is there; nothing boots in it."""
    (build_image.place() / "root").mkdir(parents=True)


@pytest.mark.usefixtures("image")
def test_a_lab_of_a_named_kernel_boots_it_in_its_mode_and_builds_no_other() -> None:
    folder = store("kernel-0123456789ab", RECORD, "seven")
    root = build.build_lab(lambda *_: None, RootChoice(kernel="seven"), never)
    assert (root.linux, root.mode, root.choice.kernel) == (folder / "linux", "seccomp", folder.name)
    assert build.ready(RootChoice(kernel=folder.name)) == root
    facts = lab_facts.of_root(root)
    assert facts["kernel"] == f"{folder.name} (Linux 7.2.13, standard)"
    assert (facts["kernel's mode"], facts["kernel's patches"]) == ("seccomp", "7.2/0001-x.patch")
    assert not build_kernel.place().exists()


@pytest.mark.usefixtures("image")
def test_a_tree_is_built_booted_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, booted = tiny_linux.make(tmp_path / "linux-tiny"), list[tuple[str, str]]()

    def script(root: LabRoot, text: str, folder: Path) -> str:
        assert (os.access(root.linux, os.X_OK), folder.is_dir()) == (True, True)
        booted.append((root.mode, text.partition(" ")[0]))
        return "reno mine\n"

    monkeypatch.setattr(boot, "script", script)
    monkeypatch.setattr(boot.compile_pyc, "compile_project", lambda *_: None)
    (tmp_path / "mine.c").write_text(CONTROL.format(name="mine"))
    assert main.main(["lab", "build", "--kernel", str(tree), "--cc-source", str(tmp_path / "mine.c"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["names"], facts["sources"], facts["mode"]) == (["linux-tiny-mine"], ["mine"], "seccomp")
    assert booted == [("seccomp", "cat")]
    assert main.main(["lab", "build", "--kernel", str(tree), "--name", "tiny"]) == 0
    assert "tiny: Linux 6.16.1, seccomp, mine reno" in capsys.readouterr().out
    assert len(booted) == 2, "each kernel boots once, before it is kept"


@pytest.mark.usefixtures("image")
def test_a_kernel_that_does_not_boot_is_not_kept(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def script(*_: object) -> str:
        raise LabError("Kernel panic")

    choice = RootChoice(kernel=str(tiny_linux.make(tmp_path / "linux")))
    with pytest.raises(LabError, match=r"does not boot \(seccomp\): Kernel panic"):
        build.build_lab(lambda *_: None, choice, script)
    assert [path for path in cache.glob("kernel-*") if (path / "kernel.json").exists() and path.suffix == ""] == []


def test_the_lab_takes_the_kernels_mode_on_its_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []

    class Stop(Exception):
        pass

    def job(command: tuple[str, ...], *_: object) -> None:
        seen.append(command)
        raise Stop

    monkeypatch.setattr(boot, "Job", job)
    monkeypatch.setattr(boot, "_allowed", lambda *_: None)
    for mode in ("ptrace", "seccomp"):
        with pytest.raises(Stop):
            boot._boot(LabRoot(RootChoice(), Path("/linux"), tmp_path, mode=mode), ["true"], boot.DEFAULTS)
    assert ["seccomp=on" in command for command in seen] == [False, True]


def test_a_kernel_that_is_not_for_the_lab_is_refused_by_its_option() -> None:
    assert RootChoice(kernel="7.2").asked == "--kernel"
    assert RootChoice(cc_sources=("/x.c",)).asked == "--cc-source"


def test_the_reader_keeps_the_mistake_of_a_kernel() -> None:
    from emulator.cli.kernel_options import with_kernel

    reader = Reader()
    with_kernel(RootChoice(), {"kernel": "nine", "cc_sources": ()}, reader)
    with pytest.raises(InputError, match="--kernel: there is no kernel 'nine'"):
        reader.finish()


def test_the_size_and_the_time_of_a_kernel() -> None:
    kernel = StoredKernel(store("kernel-0123456789ab", RECORD), (), RECORD)
    os.utime(kernel.folder / "linux", (0, 0))
    assert (kernel.bytes, kernel.built) == (4, "1970-01-01T00:00:00+00:00")
