"""Runs the steps of a composite action that are scripts, as a forge's runner does, and skips those that are actions."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_EXPRESSION = re.compile(r"\$\{\{ *([a-z0-9_.-]+) *\}\}", re.IGNORECASE)


@dataclass(frozen=True)
class ActionRun:
    """An action with inputs: `scripts` and `values` are what its steps did and were given, `outputs` is by step."""

    action: Mapping[str, Any]
    inputs: Mapping[str, str]
    workspace: Path
    root: Path
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> Path:
        """The file of the job's summary."""
        return self.workspace / "summary.md"

    def evaluated(self, text: str) -> str:
        """A value with its expressions replaced; an expression that this runner does not know is a KeyError."""
        return _EXPRESSION.sub(lambda found: self._value(found[1].split(".")), text)

    def _value(self, path: list[str]) -> str:
        if path[0] == "inputs":
            return self.inputs.get(path[1], self.action["inputs"][path[1]]["default"])
        assert (path[0], path[2]) == ("steps", "outputs"), path
        return self.outputs[path[1]].get(path[3], "")

    def run(self, *before: str, installed: Path | None = None) -> list[subprocess.CompletedProcess[str]]:
        """Run the steps up to the first that fails; `before` is put in front of each script's shell.

        With `installed`, the sweep alone, by this command.
        """
        done: list[subprocess.CompletedProcess[str]] = []
        if installed:
            self.outputs["install"] = {"command": str(installed)}
            return [self._script(step, before) for step in self.action["runs"]["steps"] if step.get("id") == "sweep"]
        for step in self.action["runs"]["steps"]:
            self.outputs.setdefault(step.get("id", ""), {})
            if "run" not in step:
                self.values.update(
                    {f"{step['uses']} {name}": self.evaluated(one) for name, one in step["with"].items()}
                )
            elif not done or not done[-1].returncode:
                done.append(self._script(step, before))
        return done

    def output(self, name: str) -> str:
        """An output of the action."""
        return self.evaluated(self.action["outputs"][name]["value"])

    def _script(self, step: Mapping[str, Any], before: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        results = self.workspace / "outputs"
        results.write_text("")
        given = {name: self.evaluated(value) for name, value in step["env"].items()}
        runner = {
            "GITHUB_ACTION_PATH": str(self.root),
            "GITHUB_OUTPUT": str(results),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_TEMP": str(self.workspace),
        }
        command = [*before, step["shell"], "-e", "-c", step["run"]]
        env = {**os.environ, **runner, **given}
        done = subprocess.run(command, cwd=self.workspace, env=env, capture_output=True, text=True, check=False)
        self.outputs[step["id"]] = dict(line.split("=", 1) for line in results.read_text().splitlines())
        return done
