"""The README is run: every marked example, in order, on the host or all together in one boot of the lab."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from support.documented_examples import agrees, examples
from support.folders import ROOT

README = ROOT / "README.md"
EXAMPLES = examples(README)
MARK = "----- longhaul readme -----"
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def of(place: str) -> list[int]:
    """The numbers of a place's examples."""
    return [number for number, example in enumerate(EXAMPLES) if example.place == place]


@cache
def lab_outputs() -> list[str]:
    """What all lab examples print, from one boot; they build on each other."""
    script = f"\necho '{MARK}'\n".join(f"{EXAMPLES[n].command}" for n in of("lab"))
    command = ["longhaul", "lab", "run", "--", "sh", "-c", f"exec 2>&1\n{script}"]
    ran = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    outputs = ran.stdout.split(f"{MARK}\n")
    assert len(outputs) == len(of("lab")), ran.stdout + ran.stderr
    return outputs


@pytest.mark.parametrize("number", of("host"), ids=lambda n: f"line{EXAMPLES[n].line}")
def test_host_example(number: int) -> None:
    example = EXAMPLES[number]
    command = ["bash", "-c", f"exec 2>&1; {example.command}"]
    ran = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert agrees(example.output, ran.stdout), f"README.md:{example.line} shows something else than\n{ran.stdout}"


@pytest.mark.parametrize("place", range(len(of("lab"))), ids=lambda n: f"line{EXAMPLES[of('lab')[n]].line}")
def test_lab_example(place: int) -> None:
    example, real = EXAMPLES[of("lab")[place]], lab_outputs()[place]
    assert agrees(example.output, real), f"README.md:{example.line} shows something else than\n{real}"


def test_there_are_examples_of_both_kinds() -> None:
    assert len(of("host")) >= 4
    assert len(of("lab")) >= 5


def test_every_command_of_ours_that_is_shown_exists() -> None:
    from emulator.cli.main import LazyGroup

    text = re.sub(r"```yaml.*?```", "", README.read_text(), flags=re.DOTALL)
    shown = set(re.findall(r"\blonghaul ([a-z0-9]+)", text))
    assert set(LazyGroup.commands_at) <= shown
    assert set(re.findall(r"^(?:\$ )?longhaul ([a-z0-9]+)", README.read_text(), re.MULTILINE)) <= set(
        LazyGroup.commands_at
    )


def test_the_topology_shown_is_valid() -> None:
    from emulator.config import loader

    shown = re.search(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    assert shown
    star = loader.loads(shown[1])
    assert star.sites == ("california", "london", "japan")
    assert [lane.rtt_ns for lane in star.lanes] == [32_000_000, 80_000_000, 346_000_000]


def test_the_contents_name_every_section_in_order() -> None:
    text = re.sub(r"```.*?```", "", README.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^##+ (.*)", text, re.MULTILINE)
    anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    contents = text.partition("## Contents")[2].partition("\n## ")[0]
    assert re.findall(r"\]\(#([^)]+)\)", contents) == anchors[1:]
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= set(anchors)


def test_shell_examples_are_words_a_shell_reads() -> None:
    for block in re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL):
        for line in block.splitlines():
            assert shlex.split(line, comments=True), line


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
