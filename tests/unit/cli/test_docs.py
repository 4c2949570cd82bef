"""`longhaul docs`: pages, topics, near misses, completion, man pages that mandoc and groff take without a warning."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from support.folders import ROOT

from emulator.cli import doc_pages, man_pages
from emulator.cli.main import LazyGroup, cli, main


def test_the_list_has_every_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    shown = capsys.readouterr().out
    for page in (ROOT / "emulator/docs").glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{page.stem} +\w.*[.:]$", shown, re.MULTILINE), page
    assert main(["docs", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["topic"] for row in rows][:2] == ["tutorial", "measuring"]
    assert all(row["title"] and row["summary"].endswith(".") for row in rows)


def test_a_page_is_shown_without_its_marks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "lab"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# The lab\n")
    assert "<!--" not in shown
    assert "$ longhaul lab run -- ping" in shown
    assert main(["docs", "lab", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"topic": "lab", "title": "The lab", "text": shown}


def test_a_command_is_a_topic_too(capsys: pytest.CaptureFixture[str]) -> None:
    for name in LazyGroup.commands_at:
        assert main(["docs", name]) == 0
        assert re.match(rf"# (longhaul {name}|The lab)\n\n[`\w]", capsys.readouterr().out), name


def test_a_topic_that_is_not_there_is_refused_with_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "tutoral"]) == 2
    assert capsys.readouterr().err == "TOPIC: there is no page 'tutoral'; did you mean tutorial?\n"
    assert main(["docs", "xyzzy"]) == 2
    assert "'longhaul docs' lists all topics" in capsys.readouterr().err


def test_topics_are_completed() -> None:
    complete = ShellComplete(cli, {}, "longhaul", "_LONGHAUL_COMPLETE")
    assert [one.value for one in complete.get_completions(["docs"], "tr")] == ["troubleshooting"]
    assert {one.value for one in complete.get_completions(["docs"], "s")} >= {"security", "sweep", "set"}


def test_on_a_terminal_it_is_laid_out() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PAGER": "cat", "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "emulator", "docs", "lab"]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment):
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:
            pass  # the other end is closed
    os.close(ours)
    text = shown.decode()
    assert "\x1b[1m" in text
    assert "## What it is for" not in text
    assert "What it is for" in text
    assert "<!--" not in text


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All man pages."""
    folder = tmp_path_factory.mktemp("man") / "man1"
    man_pages.write(folder)
    return folder


def test_every_command_has_a_man_page(manual: Path) -> None:
    names = {path.stem for path in manual.iterdir()}
    assert names >= {"longhaul", *(f"longhaul-{name}" for name in LazyGroup.commands_at), "longhaul-schedule-check"}
    for path in manual.iterdir():
        text = path.read_text()
        assert re.findall(r"^\.SH .*", text, re.M)[:4] == [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS"]


def shown(page: Path) -> str:
    """A man page as `man` shows it."""
    environment = {**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
    ran = subprocess.run(["man", "-l", page], capture_output=True, text=True, check=True, env=environment)
    return ran.stdout


@pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")
def test_a_man_page_says_what_help_and_the_documentation_say(manual: Path) -> None:
    text = shown(manual / "longhaul-set.1")
    assert "--rtt TIME" in text
    assert "longhaul set california --rtt 40ms" in text
    words = " ".join(doc_pages.page("set").text.split("\n\n")[1].split()[:4])
    assert words in " ".join(text.split())
    assert "<!--" not in text
    assert "| option |" not in text


@pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")
def test_the_first_man_page_has_the_exit_codes_and_the_environment(manual: Path) -> None:
    text = shown(manual / "longhaul.1")
    assert re.search(r"^EXIT STATUS\n +0 +done\n", text, re.MULTILINE)
    assert re.search(r"^ENVIRONMENT\n +LONGHAUL_STATE\n", text, re.MULTILINE)
    assert "longhaul - a long-fat-network emulator for Linux\n" in text
    named = re.search(r"^ +longhaul-sweep\(1\)\n +(.*?\.)\n", text, re.MULTILINE | re.DOTALL)
    assert named


def test_the_names_of_man_pages_are_one_whole_sentence(manual: Path) -> None:
    for page in manual.iterdir():
        lines = page.read_text("utf-8").splitlines()
        name = lines[lines.index(".SH NAME") + 1]
        assert not re.search(r"\. |\.$", name), page.name


@pytest.mark.parametrize("tool", ["mandoc", "groff"])
def test_man_pages_are_taken_without_a_warning(manual: Path, tool: str) -> None:
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")
    checks = {"mandoc": ["mandoc", "-Tlint", "-Wwarning"], "groff": ["groff", "-Kutf8", "-ww", "-man", "-Tutf8"]}
    for page in manual.iterdir():
        ran = subprocess.run([*checks[tool], page], capture_output=True, text=True, check=False)
        assert ran.stderr + (ran.stdout if tool == "mandoc" else "") == "", page.name


def test_markdown_becomes_roff() -> None:
    text = "A `--flag` of *it*:\n\n- one\n- .two\n\n| a | b |\n| --- | --- |\n| x | y |\n\n```sh\n.z -q\n```\n"
    assert man_pages.roff(text) == [
        ".PP", "A \\fB\\-\\-flag\\fP of \\fIit\\fP:", ".IP \\(bu 2", "one", ".IP \\(bu 2", "\\&.two",
        ".TP", "x", "y", ".PP", ".nf", "\\&.z \\-q", ".fi",
    ]  # fmt: skip


def test_every_page_has_a_summary() -> None:
    for page in doc_pages.pages().values():
        assert len(page.summary) < 140, page.topic
        assert click.unstyle(page.summary) == page.summary
