"""The documentation is run: every marked example of every page, on the host or all together in one boot of the lab."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import click
import pytest
from support.documented_examples import Example, agrees, examples, pages
from support.folders import ROOT
from support.waiting import PATIENCE_S

from emulator.cli.main import LazyGroup, cli
from emulator.errors import InputError

EXAMPLES = [example for page in pages() for example in examples(page)]
HOST = [example for example in EXAMPLES if example.place == "host"]
LAB = [example for example in EXAMPLES if example.place == "lab"]
MARK = "----- longhaul docs -----"
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
READ = ("topologies", "tests/golden/errors")
"""Folders of a clone that examples read."""
FENCE = re.compile(r"(?P<before>[^\n]*)\n^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
NEED_NO_MARK = {"yaml", "python"}
"""Other tests read these."""


def lab_script() -> str:
    """All lab examples; those of a page build on each other, and each page begins with nothing up and no past."""
    lines = ["exec 2>&1"]
    page = ""
    for example in LAB:
        if example.page != page:
            page = example.page
            lines.append(f"longhaul down >/dev/null; export LONGHAUL_STATE=/run/docs-{page}")
        lines += [f"echo '{MARK}'", example.command]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the examples read of a clone: what they write stays out of this one."""
    made = tmp_path_factory.mktemp("examples")
    for name in READ:
        shutil.copytree(ROOT / name, made / name)
    return made


@cache
def lab_outputs(folder: Path) -> dict[Example, str]:
    """What all lab examples print, from one boot."""
    command = ["longhaul", "lab", "run", "--", "sh", "-c", lab_script()]
    ran = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=3600, check=False
    )
    outputs = ran.stdout.split(f"{MARK}\n")[1:]
    assert len(outputs) == len(LAB), ran.stdout + ran.stderr
    return dict(zip(LAB, outputs, strict=True))


@pytest.mark.parametrize("example", HOST, ids=lambda example: example.where)
def test_host_example(example: Example, folder: Path) -> None:
    command = ["bash", "-c", f"exec 2>&1; {example.command}"]
    ran = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert agrees(example.output, ran.stdout), f"{example.where} shows something else than\n{ran.stdout}"


@pytest.mark.parametrize("example", LAB, ids=lambda example: example.where)
def test_lab_example(example: Example, folder: Path) -> None:
    real = lab_outputs(folder)[example]
    assert agrees(example.output, real), f"{example.where} shows something else than\n{real}"


def test_there_are_examples_of_both_kinds() -> None:
    assert len(HOST) >= 8
    assert len(LAB) >= 20


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    for block in FENCE.finditer(page.read_text()):
        if block["kind"] not in NEED_NO_MARK | {"text"}:
            run = re.fullmatch(r"<!-- run: (host|lab) -->", block["before"]) and block["kind"] == "console"
            assert run or re.fullmatch(r"<!-- not run: \S.* -->", block["before"]), f"{page.name}: {block['body']}"


def commands_of(page: Path) -> list[str]:
    """Every line of ours in blocks that are not run, and between backticks."""
    text = page.read_text()
    bodies = [block["body"].replace("\\\n", " ") for block in FENCE.finditer(text) if block["kind"] == "sh"]
    shells = [line for body in bodies for line in body.splitlines()]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    return [
        *shells,
        *(code for code in inline if re.match(r"(sudo )?longhaul [a-z]", code) and "[OPTIONS]" not in code),
    ]


HISTORY = "CHANGELOG.md"
"""It may name what is gone."""


@pytest.mark.parametrize("page", [page for page in pages() if page.name != HISTORY], ids=lambda page: page.name)
def test_every_command_that_is_not_run_is_parsed(page: Path) -> None:
    for line in commands_of(page):
        for words in calls(line):
            parse(words, line)


REDIRECTION = re.compile(r"\d*>>?\S+")


def calls(line: str) -> list[list[str]]:
    """The calls of longhaul in a line of shell, each as its words; those inside `sh -c` too."""
    found: list[list[str]] = []
    current: list[str] | None = None
    for word in shlex.split(line, comments=True):
        if word in ("&&", "||", "|", ";"):
            current = None
        elif REDIRECTION.fullmatch(word):
            continue
        elif current is not None:
            current.append(word)
        elif word == "longhaul":
            current = []
            found.append(current)
        if "longhaul " in word:
            found += calls(word)
    return found


PLACEHOLDER = re.compile(r"(?:[a-z]+:)?/?(?:\[?[A-Z]+(?:=[A-Z]+)?\]?|LANE\.\.\.)")
"""What stands for a word of the user's: FILE, KEY=VALUE, http://HOST:8642."""


def parse(words: list[str], line: str) -> None:
    """Read a command line as the command does, but run nothing: files and lanes need not be there."""
    command: click.Command = cli
    context: click.Context | None = None
    name: str | None = "longhaul"
    while True:
        try:
            context = command.make_context(name, words, parent=context)
        except click.exceptions.Exit:
            return  # --help, --version
        except (click.UsageError, InputError) as error:
            unfinished = isinstance(error, click.MissingParameter | click.exceptions.NoArgsIsHelpError)
            assert unfinished or "does not exist" in str(error) or any(map(PLACEHOLDER.fullmatch, words)), (
                f"{line}: {error}"
            )
            return
        rest = [*context._protected_args, *context.args]
        if not isinstance(command, click.Group) or not rest:
            return
        name, found, words = command.resolve_command(context, rest)
        assert found, line
        command = found


def test_a_command_that_is_not_there_is_seen() -> None:
    for wrong in ("longhaul setup", "longhaul set japan --rrt 5ms", "sudo longhaul up --confirm soon x.yaml"):
        with pytest.raises((AssertionError, click.UsageError)):
            parse(calls(wrong)[0], wrong)


def test_every_command_is_documented() -> None:
    text = next(page for page in pages() if page.name == "commands.md").read_text()
    assert re.findall(r"^## ([a-z0-9]+)$", text, re.MULTILINE) != []
    assert set(re.findall(r"^## ([a-z0-9]+)$", text, re.MULTILINE)) == set(LazyGroup.commands_at)


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n...\nc\n", "a\nb\nb\nc\n", True),
        ("a\n...\n", "a\n", False),
        ("a  \n", "a\n", True),
        ("a\n", "ab\n", False),
        ("...\nz\n", "x\ny\nz\n", True),
        (".\n", "x\n", False),
    ],
)
def test_agreement(shown: str, real: str, same: bool) -> None:
    assert agrees(shown, real) is same
