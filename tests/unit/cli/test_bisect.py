"""The command bisect: what it prints, its exit codes, what it refuses, and that it goes on after Ctrl-C."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support import tiny_linux
from support.made_results import MIB, execution

from emulator.cli import main
from emulator.cli.bisect import bisect
from emulator.experiment import lab_programs, sweep_runner
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.lab.lab_root import RootChoice

CELL = ("--rtt", "32", "--tcp-profile", "default", "--rate", "1Gbit", "--repeats", "1")
Said = Callable[..., tuple[int, str, str]]


def examples() -> list[list[str]]:
    """The commands of the help, without the program's and the command's name."""
    lines = (bisect.epilog or "").replace("\\\n", " ").splitlines()
    return [shlex.split(line)[2:] for line in lines if line.strip().startswith("longhaul ")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Five commits; the first is tagged v1, the last one v2."""
    tree = tiny_linux.make(tmp_path / "linux")
    commits = []
    for number in range(5):
        (tree / "net/ipv4/tcp_reno.c").write_text(f"int reno = {number};\n")
        commits.append(tiny_linux.commit(tree))
    for tag, commit in (("v1", commits[0]), ("v2", commits[-1])):
        subprocess.run(["git", "-C", tree, "tag", tag, commit], check=True)
    return tree


@pytest.fixture
def longhaul(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tree: Path) -> Said:
    """Bisects where the commits' kernels do so many MiB/s; an exception instead of a number is raised."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tree)
    monkeypatch.setattr(lab_programs, "built", lambda *_: None)
    monkeypatch.setattr(lab_programs, "settled", lambda choice, _: choice)
    log = ["git", "-C", str(tree), "log", "--reverse", "--format=%H"]
    commits = subprocess.run(log, check=True, capture_output=True, text=True).stdout.split()

    def run(*args: str, mib: list[float | BaseException]) -> tuple[int, str, str]:
        def runner(_: object, __: object, choice: RootChoice) -> Callable[[CellSpec], Execution]:
            place, _, commit = choice.kernel.rpartition("@")
            assert place == str(tree)
            figure = mib[commits.index(commit)]
            if isinstance(figure, BaseException):
                raise figure
            return lambda spec: execution(spec, figure * MIB)

        monkeypatch.setattr(sweep_runner, "in_lab", runner)
        code = main.main(["bisect", *args])
        return code, *capsys.readouterr()

    return run


def test_the_commit_is_named_with_every_step(longhaul: Said) -> None:
    code, out, _ = longhaul("--good", "v1", "--bad", "v2", *CELL, mib=[100, 100, 100, 70, 70])
    assert (code, "the first bad commit is" in out, "-30.0% from good to bad" in out) == (0, True, True)
    assert [line.split()[0] for line in out.splitlines()[:4]] == ["good", "bad", "good", "bad"]
    assert "  100.0 (0.839) ± " in out
    assert "figures: MiB/s (Gbit/s), ± at 99 % confidence" in out


@pytest.mark.parametrize("example", examples())
def test_every_example_of_the_help_is_one_cell(longhaul: Said, tree: Path, example: list[str]) -> None:
    for tag, commit in (("v6.11", "v1"), ("v6.12", "v2")):
        subprocess.run(["git", "-C", tree, "tag", tag, commit], check=True)
    code, _, err = longhaul(*example, "--tree", str(tree), mib=[KeyboardInterrupt()] * 5)
    assert (code, "every finished figure is kept" in err) == (130, True), "measuring did not begin"


def test_json_has_the_commit_and_the_steps_and_nothing_else_is_on_stdout(longhaul: Said) -> None:
    code, out, err = longhaul("--good", "v1", "--bad", "v2", *CELL, "--json", mib=[100, 100, 100, 70, 70])
    found = json.loads(out)
    assert (code, found["differs"], round(found["share"], 3)) == (0, True, -0.3)
    assert found["first_bad"] == found["steps"][-1]["commit"]
    assert [step["verdict"] for step in found["steps"]] == ["good", "bad", "good", "bad"]
    assert len(err.splitlines()) == 4


def test_ends_that_do_not_differ_exit_with_8(longhaul: Said) -> None:
    code, out, _ = longhaul("--good", "v1", "--bad", "v2", *CELL, mib=[100, 1, 1, 1, 101])
    assert (code, "does not differ between the two ends" in out) == (8, True)


def test_after_ctrl_c_the_same_command_measures_what_is_missing(longhaul: Said) -> None:
    options = ("--good", "v1", "--bad", "v2", *CELL)
    code, _, err = longhaul(*options, mib=[100, 100, KeyboardInterrupt(), 70, 70])
    assert (code, "the same command goes on from there" in err) == (130, True)
    again = AssertionError("measured again")
    code, out, _ = longhaul(*options, mib=[again, 100, 100, 70, again])
    assert (code, "the first bad commit is" in out) == (0, True)


def test_a_program_of_ones_own_is_for_git_bisect_itself(longhaul: Said, tree: Path) -> None:
    subprocess.run(["git", "-C", tree, "rm", "-rq", "arch"], check=True)
    tiny_linux.commit(tree)
    code, _, err = longhaul("--good", "v1", "--bad", "HEAD", *CELL, mib=[])
    assert (code, err.splitlines()[0].partition("is no source")[0]) == (2, f"--bad: 'HEAD' of '{tree}' ")
    assert "; for a program of your own use git bisect run, see longhaul docs integrations" in err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--good", "v0", "--bad", "v9", *CELL], "--bad: the Git repository"),
        (["--good", "v1", "--bad", "v1", *CELL], "--good, --bad: both are the commit"),
        (["--good", "v2", "--bad", "v1", *CELL], "--good, --bad: git bisect"),
        (
            ["--good", "v1", "--bad", "v2", *CELL, "--cc", "cubic,bbr"],
            "what you ask for makes 2 (lane-32ms-default-1-cubic-1Gbit, lane-32ms-default-1-bbr-1Gbit): give each",
        ),
        (["--good", "v1", "--bad", "v2", *CELL, "--rtt", "1,2,3,4,5"], "lane-3ms-default-1-1Gbit, ...)"),
        (["--good", "v1", "--bad", "v2"], "there is nothing to measure"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_built(
    longhaul: Said, options: list[str], why: str
) -> None:
    code, _, err = longhaul(*options, mib=[AssertionError("measured")] * 5)
    assert (code, why in err) == (2, True), err
