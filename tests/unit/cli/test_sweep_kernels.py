"""A sweep over kernels: each cell on each, in one run; what a run keeps of them, and which got slower."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.made_results import MIB, execution
from support.stored_kernels import CONTROL, OTHER, RECORD, SEVEN, store

from emulator.cli import main
from emulator.experiment import lab_programs, sweep_runner
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution, RunFolder
from emulator.lab import boot, build_kernel
from emulator.lab.lab_root import RootChoice

CELL = ("--rtt", "32", "--tcp-profile", "default", "--rate", "1Gbit", "--repeats", "3")
Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def longhaul(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Said:
    """Runs a command line; a cell measures what its kernel does in `mib`, 100 MiB/s otherwise."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emulator.report.figures.draw.draw", lambda *_: [])
    monkeypatch.setattr(lab_programs, "built", lambda *_: None)
    store(build_kernel.place().name, None)
    store(SEVEN, RECORD, "seven")
    store(OTHER, RECORD, "other")

    def run(*args: str, **mib: float) -> tuple[int, str, str]:
        def runner(*_: object) -> Callable[[CellSpec], Execution]:
            return lambda spec: execution(spec, (mib.get(spec.kernel, 100) + spec.repeat / 1e3) * MIB)

        monkeypatch.setattr(sweep_runner, "in_lab", runner)
        code = main.main(list(args))
        return code, *capsys.readouterr()

    return run


def only(folder: Path) -> RunFolder:
    (run,) = (folder / "runs").iterdir()
    return RunFolder(run)


def test_each_cell_is_measured_on_each_kernel(longhaul: Said, tmp_path: Path) -> None:
    code, out, _ = longhaul("sweep", "--in-lab", *CELL, "--kernel", "6.12,seven,other", seven=80, other=120)
    assert code == 0
    run = only(tmp_path)
    asked = run.asked()
    assert [spec.id for spec in asked.specs] == [
        "lane-32ms-default-1-1Gbit-kernel6.12", "lane-32ms-default-1-1Gbit-kernelseven",
        "lane-32ms-default-1-1Gbit-kernelother",
    ]  # fmt: skip
    assert asked.root.kernels == (("6.12", ""), ("seven", SEVEN), ("other", OTHER))
    kept = run.facts()["kernels"]
    assert kept["6.12"]["kernel"] == build_kernel.place().name
    assert (kept["seven"]["kernel's mode"], kept["seven"]["kernel's source"]) == (
        "seccomp", "Debian's linux-source-7.2 7.2.13-1",
    )  # fmt: skip
    parts = out.partition("kernel seven against 6.12\n")[2].partition("kernel other against 6.12\n")
    said = [
        [line.split()[-2:] for line in part.splitlines() if line.startswith("lane-32ms-default-1-1Gbit ")]
        for part in (parts[0], parts[2])
    ]
    assert said == [[["-20.0%", "REGRESSION"]], [["+20.0%", "faster"]]]


def test_a_run_of_several_kernels_is_compared_with_itself(longhaul: Said, tmp_path: Path) -> None:
    longhaul("sweep", "--in-lab", *CELL, "--kernel", "seven,other", other=90)
    run = str(only(tmp_path).path)
    code, out, _ = longhaul("compare", run)
    assert (code, "seven -> other" in out, "REGRESSION" in out) == (8, True, True)
    code, out, _ = longhaul("compare", run, "--json")
    (change,) = json.loads(out)["changes"]
    assert (change["run"], change["word"], change["cell"]) == ("other", "REGRESSION", "lane-32ms-default-1-1Gbit")
    assert longhaul("compare", run, run)[0] == 0


def test_runs_on_one_kernel_each_have_the_same_cells(longhaul: Said, tmp_path: Path) -> None:
    baseline = str(tmp_path / "base.yaml")
    assert longhaul("sweep", "--in-lab", *CELL, "--kernel", "seven", "--write-baseline", baseline)[0] == 0
    assert only(tmp_path).asked().root == RootChoice(kernel=SEVEN)
    assert only(tmp_path).asked().specs[0].kernel == ""
    code, out, _ = longhaul("sweep", "--in-lab", *CELL, "--kernel", "other", "--baseline", baseline, **{"": 90})
    assert (code, "lane-32ms-default-1-1Gbit" in out, "-10.0" in out) == (8, True, True)
    code, _, err = longhaul("compare", str(only_first(tmp_path)))
    assert (code, "a comparison needs two runs, or one of several kernels" in err) == (2, True)


def only_first(folder: Path) -> Path:
    return sorted((folder / "runs").iterdir())[0]


def test_a_resumed_run_measures_the_same_kernels_whatever_their_names_mean_now(
    longhaul: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    longhaul("sweep", "--in-lab", *CELL, "--kernel", "6.12,seven")
    run = only(tmp_path)
    next(run.path.glob("cells/*seven.2.json")).unlink()
    from emulator.lab import build_cache, kernel_store

    kernel_store.name(build_cache.folder() / OTHER, "seven")
    seen: list[RootChoice] = []

    def runner(_: object, __: object, choice: RootChoice) -> Callable[[CellSpec], Execution]:
        seen.append(choice)
        return lambda spec: execution(spec, (100 + spec.repeat / 1e3) * MIB)

    monkeypatch.setattr(sweep_runner, "in_lab", runner)
    assert main.main(["sweep", "--resume", str(run.path)]) == 0
    assert seen[0].of_kernel("seven") == RootChoice(kernel=SEVEN)
    assert seen[0].of_kernel("6.12") == RootChoice()


def test_a_cells_lab_boots_its_kernel(longhaul: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longhaul("sweep", "--in-lab", *CELL, "--kernel", "6.12,seven")
    asked = only(tmp_path).asked()
    booted: list[RootChoice] = []

    def built(choice: RootChoice) -> object:
        booted.append(choice)
        raise KeyboardInterrupt

    monkeypatch.setattr(boot, "built", built)
    for spec in asked.specs:
        with pytest.raises(KeyboardInterrupt):
            sweep_runner.lab_answer(spec, 0, None, asked.root)
    assert booted == [RootChoice(), RootChoice(kernel=SEVEN)]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--kernel", "6.12,seven,seven"], "seven is named twice"),
        (["--kernel", "nine,seven"], "there is no kernel 'nine': use standard, other or seven"),
        (["--kernel", "seven", "--cc", "cubic"], "there is no congestion control 'cubic': use bbr or reno"),
        (["--kernel", "6.12,seven", "--cc", "htcp"], "there is no congestion control 'htcp': use bbr or reno"),
        (["--cc-source", "mine.c", "--cc", "nine"], "veno, westwood, yeah or mine"),
        (["--kernel", "seven", "--scheduler", "local"], "--kernel is built on this machine"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_built(
    longhaul: Said, tmp_path: Path, options: list[str], why: str
) -> None:
    (tmp_path / "mine.c").write_text(CONTROL.format(name="mine"))
    code, _, err = longhaul("sweep", "--in-lab", *CELL, *options)
    assert (code, why in err) == (2, True), err
    assert not (tmp_path / "runs").exists()


def test_a_congestion_control_of_a_file_is_one_of_the_axis(longhaul: Said, tmp_path: Path) -> None:
    (tmp_path / "mine.c").write_text(CONTROL.format(name="mine"))
    options = ("--cc-source", "mine.c", "--cc", "mine,cubic", "--dry-run", "--json")
    _, out, _ = longhaul("sweep", "--in-lab", *CELL, *options)
    assert [cell["id"] for cell in json.loads(out)["cells"]] == [
        "lane-32ms-default-1-mine-1Gbit", "lane-32ms-default-1-cubic-1Gbit",
    ]  # fmt: skip
    code, _, err = longhaul("sweep", *CELL, "--kernel", "seven", "--dry-run")
    assert (code, err.strip()) == (2, "--kernel: it is for the lab: add --in-lab")


def test_the_kernel_of_a_spec_is_kept_and_an_old_run_has_none(longhaul: Said, tmp_path: Path) -> None:
    longhaul("sweep", "--in-lab", *CELL, "--kernel", "6.12,seven")
    for spec in only(tmp_path).asked().specs:
        value = spec.to_json()
        assert CellSpec.from_json(value) == spec
        assert CellSpec.from_json({key: text for key, text in value.items() if key != "kernel"}).kernel == ""
