"""`git bisect` over a tiny repository with a made-up measuring function: which commit it names, what it measures."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.made_results import MIB, cell_result

from emulator.errors import InputError, LabError
from emulator.experiment import commit_figures, kernel_bisect
from emulator.experiment.kernel_bisect import BisectOutcome, BisectStep
from emulator.experiment.results import Result
from emulator.lab.git_bisection import GitBisection
from emulator.lab.lab_root import RootChoice


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "linux"
    tree.mkdir()
    git(tree, "init", "-q", "-b", "main")
    for number in range(10):
        (tree / "file").write_text(f"{number}\n")
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", f"change {number}")
    return tree


def git(tree: Path, *argv: str) -> str:
    own = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    return subprocess.run(["git", "-C", tree, *own, *argv], check=True, capture_output=True, text=True).stdout.strip()


def commits(tree: Path) -> list[str]:
    return git(tree, "log", "--reverse", "--format=%H").split()


def search(tree: Path, mib: Callable[[int], float], *, good: int = 0, bad: int = 9) -> tuple[BisectOutcome, list[int]]:
    """The outcome, and the numbers of the commits that were measured."""
    every, asked = commits(tree), list[int]()

    def measure(commit: str) -> Result:
        asked.append(every.index(commit))
        return cell_result(steady_bytes_per_s=mib(asked[-1]) * MIB)

    def quiet(_: BisectStep, __: int) -> None:
        pass

    repository = GitBisection(tree, tree.parent / "own.git")
    return kernel_bisect.bisect(repository, every[good], every[bad], measure, quiet), asked


@pytest.mark.parametrize("first_bad", range(1, 10))
@pytest.mark.parametrize("after", [50, 200])
def test_the_first_commit_with_the_other_figure_is_named(tree: Path, first_bad: int, after: float) -> None:
    outcome, asked = search(tree, lambda number: 100 if number < first_bad else after)
    assert outcome.found == commits(tree)[first_bad]
    assert asked[:2] == [0, 9], "the ends first"
    assert len(asked) == len(set(asked)) <= 6
    assert {step.verdict for step in outcome.steps} == {"good", "bad"}


def test_the_users_repository_is_only_read(tree: Path) -> None:
    def state() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tree.rglob("*") if path.is_file()}

    before = state()
    search(tree, lambda number: 100 - 50 * (number > 4))
    assert state() == before


def test_ends_that_do_not_differ_end_the_search_at_once(tree: Path) -> None:
    outcome, asked = search(tree, lambda _: 100)
    assert (outcome.found, outcome.candidates, asked) == ("", (), [0, 9])
    assert not outcome.ends.differs


def test_a_commit_that_does_not_build_is_skipped(tree: Path) -> None:
    def mib(number: int) -> float:
        if number == 4:
            raise LabError("the kernel does not compile")
        return 100 if number < 7 else 50

    outcome, _ = search(tree, mib)
    assert outcome.found == commits(tree)[7]
    (skipped,) = (step for step in outcome.steps if step.verdict == "skip")
    assert (skipped.result, skipped.why) == (None, "the kernel does not compile")


def test_skipped_commits_that_hide_the_first_bad_one_are_all_named(tree: Path) -> None:
    def mib(number: int) -> float:
        if number in (4, 5):
            raise LabError("the kernel does not boot")
        return 100 if number < 5 else 50

    outcome, _ = search(tree, mib)
    assert outcome.found == ""
    assert set(outcome.candidates) == set(commits(tree)[4:7])


def test_an_end_that_does_not_build_is_an_error(tree: Path) -> None:
    def mib(number: int) -> float:
        raise LabError(f"no {number}")

    with pytest.raises(LabError, match="no 0"):
        search(tree, mib)


def test_ends_in_the_wrong_order_are_refused_before_anything_is_measured(tree: Path) -> None:
    with pytest.raises(InputError, match=r"--good, --bad"):
        search(tree, lambda _: pytest.fail("measured"), good=9, bad=0)


def test_the_way_through_a_merge_is_gits(tree: Path) -> None:
    git(tree, "checkout", "-q", "-b", "side", "main~5")
    for number in range(3):
        (tree / f"side{number}").write_text("")
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", f"side {number}")
    git(tree, "checkout", "-q", "main")
    git(tree, "merge", "-q", "--no-edit", "side")
    culprit = git(tree, "rev-parse", "side~1")
    slow = set(git(tree, "rev-list", "--ancestry-path", f"{culprit}..main").split()) | {culprit}
    every = commits(tree)
    outcome, _ = search(tree, lambda number: 50 if every[number] in slow else 100, bad=len(every) - 1)
    assert outcome.found == culprit


def test_a_figure_is_measured_once_and_a_failure_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tree.parent / "cache"))
    result, asked = cell_result(steady_bytes_per_s=80 * MIB), list[str]()

    def measure(commit: str) -> Result:
        asked.append(commit)
        if len(asked) == 1:
            raise LabError("interrupted")
        return result

    folder = commit_figures.place(tree, result.spec, RootChoice(), 3)
    with pytest.raises(LabError):
        commit_figures.kept(folder, measure)("abc")
    for _ in range(2):
        assert commit_figures.kept(folder, measure)("abc").figure == result.figure
    assert asked == ["abc", "abc"]
    assert commit_figures.place(tree, result.spec, RootChoice(), 4) != folder
    assert commit_figures.place(tree, result.spec, RootChoice(kernel_config="full"), 3) != folder
