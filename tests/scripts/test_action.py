"""The GitHub action and the project's own workflow: their syntax, and their scripts, run as a runner runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from support.folders import ROOT
from support.forge_steps import ActionRun

ACTION, WORKFLOW = ROOT / "action.yml", ROOT / ".github/workflows/ci.yml"
CELL = {"rtt": "20ms", "tcp-profile": "default"}
IN_A_CONTAINER = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o noexec,size=64m none /dev/shm; exec "$@"', "sh")
"""With the /dev/shm of a container."""
LONGHAUL = Path(sys.executable).with_name("longhaul")
ONCE = "--repeats=1\n--repeat=1"
TEXTS = (
    "rtt", "rate", "loss", "tcp-profile", "server", "ready", "client", "packages", "baseline", "tolerance",
    "write-baseline",
)  # fmt: skip
"""The inputs that are the value of an option, in the order in which the sweep gets them."""
HOSTILE = "'; touch pwned; \"$(touch pwned)`touch pwned`\\\n touch pwned & ${{ inputs.rtt }} --json"
Prepared = Callable[..., ActionRun]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture
def prepared(workspace: Path) -> Prepared:
    """The action with inputs, in a workspace that the tests here share, with a summary of its own."""

    def prepare(**inputs: str) -> ActionRun:
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        action = yaml.safe_load(ACTION.read_text())
        assert given.keys() <= action["inputs"].keys()
        run = ActionRun(action, CELL | given, workspace, ROOT)
        run.summary.unlink(missing_ok=True)
        return run

    return prepare


@pytest.mark.parametrize(
    ("schema", "file"), [("vendor.github-actions", ACTION), ("vendor.github-workflows", WORKFLOW)], ids=["action", "ci"]
)
def test_the_syntax_is_the_forges(schema: str, file: Path) -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    done = subprocess.run([checker, "--builtin-schema", schema, file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def scripts(file: Path) -> list[str]:
    """The text of every `run` in a file."""
    tree: dict[str, Any] = yaml.safe_load(file.read_text())
    jobs = [tree["runs"]] if "runs" in tree else tree["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("file", [ACTION, WORKFLOW], ids=["action", "ci"])
def test_no_expression_stands_in_a_script(file: Path) -> None:
    """The runner replaces it before the shell reads the script: an input would be run."""
    assert scripts(file)
    assert [script for script in scripts(file) if "${{" in script] == []


def test_each_input_is_used_and_each_one_that_is_used_exists() -> None:
    action = yaml.safe_load(ACTION.read_text())
    used = set(re.findall(r"inputs\.([a-z-]+)", str(action["runs"])))
    assert used == action["inputs"].keys()
    given = set(re.findall(r"\bASKED_[A-Z_]+", str(action["runs"])))
    assert given == set(re.findall(r"\bASKED_[A-Z_]+", (ROOT / "scripts/action").read_text()))


def test_the_workflow_gives_only_inputs_that_exist() -> None:
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["action"]["steps"]
    inputs = [step["with"] for step in steps if step.get("uses") == "./"]
    assert len(inputs) == 3
    assert {name for one in inputs for name in one} <= yaml.safe_load(ACTION.read_text())["inputs"].keys()
    assert "scripts/test" in scripts(WORKFLOW)


def test_a_baseline_is_written_and_a_slower_program_fails(prepared: Prepared, workspace: Path) -> None:
    first = prepared(client="sleep 1", write_baseline="baseline.yaml", options=ONCE)
    done = first.run(*IN_A_CONTAINER)
    assert [step.returncode for step in done] == [0, 0, 0], done[-1].stdout + done[-1].stderr
    assert first.output("verdict") == "passed"
    assert "completion" in (workspace / "baseline.yaml").read_text()
    assert first.summary.read_text().startswith("## Completion time against RTT\n\n**passed: all 1 cells valid**\n")
    assert re.fullmatch(r"longhaul-kernel-[0-9a-f]+-image-[0-9a-f]+", first.values["actions/cache/save@v4 key"])
    assert Path(first.values["actions/cache/restore@v4 path"], "x").parent.is_dir()

    slower = prepared(client="sleep 1.01; touch pwned", baseline="baseline.yaml", options=ONCE)
    (last,) = slower.run(installed=LONGHAUL)
    assert last.returncode == 8, last.stdout + last.stderr
    assert slower.output("verdict") == "failed"
    summary = slower.summary.read_text()
    assert "**gate failed: 1 of 1 cells (tolerance 1 %)**" in summary
    assert "completion time +1.00 %: 1.00009 s in the baseline, 1.01" in summary
    run = workspace / slower.output("run")
    assert (run / "report.html").exists()
    assert run.name > Path(first.output("run")).name
    (case,) = ElementTree.parse(workspace / slower.output("junit")).iter("testcase")
    assert case[0].tag == "failure"
    assert list(workspace.rglob("pwned")) == [], "a client's command is run in the lab"
    pause, *_, go_on = last.stdout.splitlines()
    assert pause.removeprefix("::stop-commands::") == go_on.strip(":"), "what a program printed commands no runner"


def test_hostile_inputs_arrive_as_they_are(prepared: Prepared, workspace: Path) -> None:
    """Each as one argument, whatever is in it; the topology is no option even if it looks like one."""
    shown = workspace / "show-arguments"
    shown.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    shown.chmod(0o755)
    run = prepared(**dict.fromkeys(TEXTS, HOSTILE), topology=f"--help {HOSTILE}", folder="f", options="-a b\n\n$(c)")
    (done,) = run.run(installed=shown)
    *arguments, _ = done.stdout.partition("\n")[2].split("\0")
    told = [f"--{'with' if name == 'packages' else name}={HOSTILE}" for name in TEXTS]
    files = ["--runs=f/runs", "--junit=f/sweep.xml", f"--markdown={run.summary}"]
    assert arguments == ["sweep", "--in-lab", *files, *told, "--force", "-a b", "$(c)", "--", f"--help {HOSTILE}"]
    assert (done.returncode, run.output("verdict")) == (0, "passed")
    assert list(workspace.rglob("pwned")) == []


def test_a_sweep_refuses_a_hostile_input(prepared: Prepared, workspace: Path) -> None:
    run = prepared(client="true", topology=HOSTILE)
    (done,) = run.run(installed=LONGHAUL)
    assert (done.returncode, run.output("verdict")) == (2, "error")
    assert "$(touch pwned)" in done.stderr
    assert list(workspace.rglob("pwned")) == []
    assert "The sweep did not run (exit code 2)" in run.summary.read_text()


@pytest.mark.parametrize("folder", ["f\nverdict=passed", HOSTILE])
def test_a_folder_makes_no_output_of_its_own(prepared: Prepared, workspace: Path, folder: str) -> None:
    run = prepared(client="true", folder=folder)
    assert run.run(installed=LONGHAUL)[-1].returncode == 2
    assert (run.output("verdict"), list(workspace.rglob("pwned"))) == ("", [])


def test_a_wheel_that_is_absent_is_named(prepared: Prepared) -> None:
    done = prepared(wheel="longhaul-*.whl").run()
    assert [step.returncode for step in done] == [2]
    assert done[0].stderr == "wheel: longhaul-*.whl is no file: download a release into the workspace first\n"
