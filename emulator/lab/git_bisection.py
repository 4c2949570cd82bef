"""`git bisect` in a bare repository of Longhaul's own, with the objects of the user's, which is only read."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

from emulator.errors import InputError, LabError

GOOD, BAD, SKIP = "good", "bad", "skip"
_FOUND = re.compile(r"(?m)^([0-9a-f]{40,64}) is the first '?bad'? commit")
_LEFT = re.compile(r"roughly (\d+) steps?")
_CANDIDATE = re.compile(r"(?m)^([0-9a-f]{40,64})$")


class BisectAnswer(Struct, frozen=True):
    """What Git says after a verdict: the commit to test next, or the one that is found, or those that it may be."""

    next: str = ""
    found: str = ""
    candidates: tuple[str, ...] = ()
    steps_left: int = 0


class GitBisection:
    """A bisection between two commits of the Git repository `tree`, in the new bare repository `place`."""

    def __init__(self, tree: Path, place: Path) -> None:
        self._tree, self._place = tree, place

    def start(self, good: str, bad: str) -> BisectAnswer:
        """Begin. Raises InputError where Git knows no way from the one to the other, LabError."""
        shutil.rmtree(self._place, ignore_errors=True)
        _run("git", "init", "-q", "--bare", str(self._place))
        theirs = Path(_run("git", "-C", str(self._tree), "rev-parse", "--git-common-dir").strip())
        common = (self._tree / theirs).resolve()
        (self._place / "objects/info/alternates").write_text(f"{common / 'objects'}\n", "utf-8")
        if (shallow := common / "shallow").exists():
            shutil.copy(shallow, self._place / "shallow")
        self._git("update-ref", "--no-deref", "HEAD", bad)
        return self._answer("start", "--no-checkout", bad, good)

    def judge(self, commit: str, word: str) -> BisectAnswer:
        """Tell Git whether a commit is GOOD, BAD or to be SKIPped. Raises InputError, LabError."""
        return self._answer(word, commit)

    def subject(self, commit: str) -> str:
        """The first line of a commit's message."""
        return self._git("log", "-1", "--format=%s", commit).stdout.strip()

    def _answer(self, *argv: str) -> BisectAnswer:
        done = self._git("bisect", *argv, must=False)
        said = done.stdout + done.stderr
        if match := _FOUND.search(said):
            return BisectAnswer(found=match[1])
        if "'skip'ped commits left" in said:
            return BisectAnswer(candidates=tuple(_CANDIDATE.findall(said)))
        if done.returncode:
            raise InputError.single(f"git bisect {argv[0]}: {said.strip()}", "--good, --bad")
        left = _LEFT.search(said)
        commit = self._git("rev-parse", "--verify", "BISECT_HEAD").stdout.strip()
        return BisectAnswer(next=commit, steps_left=int(left[1]) if left else 0)

    def _git(self, *argv: str, must: bool = True) -> subprocess.CompletedProcess[str]:
        done = _completed("git", "-C", str(self._place), *argv)
        if must and done.returncode:
            raise LabError(f"`git {argv[0]}` failed: {done.stderr.strip()}")
        return done


def _run(*argv: str) -> str:
    done = _completed(*argv)
    if done.returncode:
        raise LabError(f"`{' '.join(argv)}` failed: {done.stderr.strip()}")
    return done.stdout


def _completed(*argv: str) -> subprocess.CompletedProcess[str]:
    # The texts that are looked for are English. What names the user's repository does not hold for ours.
    argv = ("env", "-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "-u", "GIT_INDEX_FILE", "LC_ALL=C", *argv)
    return subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
