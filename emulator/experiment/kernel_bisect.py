"""Finds the commit of Linux that changed a cell's figure: Git chooses the commits, a measuring function judges them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from emulator.errors import LonghaulError, MeasureError
from emulator.experiment.compare_runs import CellComparison
from emulator.experiment.results import Result
from emulator.lab.git_bisection import BAD, GOOD, SKIP, BisectAnswer, GitBisection

CommitMeasure = Callable[[str], Result]
"""Builds the kernel of a commit and measures the cell on it. Raises LonghaulError where it cannot."""


class BisectStep(Struct, frozen=True):
    """A commit, its verdict (GOOD, BAD or SKIP), its result, or why it has none."""

    commit: str
    subject: str
    verdict: str
    result: Result | None
    why: str = ""


class BisectOutcome(Struct, frozen=True):
    """The first bad commit; where skipped ones hide it, those that it may be. Both empty: the ends do not differ."""

    ends: CellComparison
    steps: tuple[BisectStep, ...]
    found: str = ""
    candidates: tuple[str, ...] = ()


def bisect(
    git: GitBisection, good: str, bad: str, measure: CommitMeasure, tell: Callable[[BisectStep, int], None]
) -> BisectOutcome:
    """Search between two commits. `tell` gets each step, and about how many are left after it.

    Raises LonghaulError where the cell cannot be measured at one of the two ends.
    """
    answer = git.start(good, bad)
    steps: list[BisectStep] = []

    def add(step: BisectStep, left: int) -> None:
        steps.append(step)
        tell(step, left)

    first, last = (_valid(commit, measure) for commit in (good, bad))
    ends = CellComparison(first.spec.id, first, last)
    for commit, result, verdict in ((good, first, GOOD), (bad, last, BAD)):
        add(BisectStep(commit, git.subject(commit), verdict, result), answer.steps_left)
    if not ends.differs:
        return BisectOutcome(ends, tuple(steps))
    while answer.next:
        step = _judged(git, answer, ends, measure)
        answer = git.judge(step.commit, step.verdict)
        add(step, answer.steps_left)
    return BisectOutcome(ends, tuple(steps), answer.found, answer.candidates)


def threshold(ends: CellComparison) -> float:
    """The figure half way between the two ends: a commit beyond it is bad."""
    return (ends.before.figure + ends.after.figure) / 2


def _valid(commit: str, measure: CommitMeasure) -> Result:
    """The result of a commit, if it is one. Raises LonghaulError."""
    result = measure(commit)
    if result.judgement.invalid:
        raise MeasureError(f"the cell is invalid at {commit[:12]}: {'; '.join(map(str, result.judgement.invalid))}")
    return result


def _judged(git: GitBisection, answer: BisectAnswer, ends: CellComparison, measure: CommitMeasure) -> BisectStep:
    commit = answer.next
    try:
        result = _valid(commit, measure)
    except LonghaulError as error:
        return BisectStep(commit, git.subject(commit), SKIP, None, str(error))
    rises = ends.after.figure > ends.before.figure
    verdict = BAD if (result.figure > threshold(ends)) == rises else GOOD
    return BisectStep(commit, git.subject(commit), verdict, result)
