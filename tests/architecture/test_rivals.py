"""What users of other emulators suffer from, put back into a copy of ours one by one: each time a test of ours fails.

Those that only a kernel can show are put back where they are tested, in the lab: `test_impairments.py` (a limit of
1000, 1-h sent as h), `test_killed.py` (what a SIGKILL leaks), `test_flows_live.py` (packets taken for others).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.folders import ROOT
from support.waiting import PATIENCE_S


@dataclass(frozen=True)
class Bug:
    """A bug: what stands in a file of ours, what stood there if we had it, and the test that would see it."""

    name: str
    file: str
    ours: str
    theirs: str
    test: str


BUGS = [
    Bug(
        "netem's default limit of 1000 packets on a delay lane",
        "emulator/plan/netem_lowering.py", "limit=limit_packets(lane, impairment, smallest)", "limit=1000",
        "unit/plan/test_planner.py::test_the_plan_is_as_it_is_written_down[up-virtual]",
    ),
    Bug(
        "a round trip laid on each direction",
        "emulator/model/topology.py", "return rtt_ns - rtt_ns // 2, rtt_ns // 2", "return rtt_ns, rtt_ns",
        "unit/model/test_geography.py::test_an_access_counts_once_for_the_whole_round_trip",
    ),
    Bug(
        "75 ms halved to 37 ms and 37 ms",
        "emulator/model/topology.py", "return rtt_ns - rtt_ns // 2, rtt_ns // 2",
        "return rtt_ns // 2_000_000 * 1_000_000, rtt_ns // 2_000_000 * 1_000_000",
        "unit/config/test_loader.py::test_lane_settings_hold_per_direction_and_are_never_halved",
    ),
    Bug(
        "a loss halved",
        "emulator/model/impairment_keys.py", "(loss, None) if isinstance", "(loss // 2, None) if isinstance",
        "unit/config/test_loader.py::test_lane_settings_hold_per_direction_and_are_never_halved",
    ),
    Bug(
        "a loss of 0 taken for none said, so that 1% is lost",
        "emulator/config/loader.py", "fields |= said(form)", "fields |= {k: v for k, v in said(form).items() if v}",
        "unit/config/test_loader.py::test_direction_over_lane_over_defaults",
    ),
    Bug(
        "one impairment set, the others gone",
        "emulator/model/lane_patch.py", "return replace(outbound, **out), replace(inbound, **back)",
        "return Impairment(**out), Impairment(**back)",
        "unit/cli/test_set.py::test_an_option_sets_its_field_of_one_direction_and_no_other",
    ),
    Bug(
        "every change a removal and a new queue",
        "emulator/plan/planner.py", "if now and goal and now.form != goal.form:", "if now and goal and now != goal:",
        "unit/plan/test_planner.py::test_the_plan_is_as_it_is_written_down[rtt-longer]",
    ),
    Bug(
        "what was asked for cleared at the start",
        "emulator/control/intent_store.py", "        self.folder = folder\n",
        "        self.folder = folder; (folder / INTENT_FILE).unlink(missing_ok=True)\n",
        "unit/control/test_watchdog_loop.py::test_after_a_reboot_it_brings_the_lanes_up_even_if_drift_is_only_reported",
    ),
    Bug(
        "what a killed process had made left behind for ever",
        "emulator/plan/planner.py", "for name in sorted(have.namespaces - want.namespaces):", "for name in ():",
        "unit/control/test_reconcile.py::test_killed_between_any_two_everything_is_returned",
    ),
    Bug(
        "a rate above 1 Gbit/s ignored",
        "emulator/plan/netem_lowering.py", "rate, frame = impairment.rate_bps // 8,",
        "rate, frame = min(impairment.rate_bps, 10**9) // 8,",
        "unit/plan/test_planner.py::test_the_plan_is_as_it_is_written_down[up-virtual]",
    ),
    Bug(
        "the port that one manages the machine by taken",
        "emulator/plan/preconditions.py", "(link.default_route, route),", "",
        "unit/plan/test_preconditions.py::test_refused_with_the_reason_and_left_as_it_was[default-route]",
    ),
    Bug(
        "the session's own port taken",
        "emulator/plan/preconditions.py", "(bool(cut), f\"carries", "(False, f\"carries",
        "unit/plan/test_preconditions.py::test_refused_with_the_reason_and_left_as_it_was[session-of-ssh]",
    ),
    Bug(
        "what is on disk run by a shell",
        "emulator/hosts/tools/process.py", "start_new_session=True,", "start_new_session=True, shell=True,",
        "web/test_security.py::test_nothing_of_ours_ever_starts_a_shell",
    ),
    Bug(
        "no authentication",
        "web/auth/guard.py", "if trusted or not self.login:", "if True:",
        "web/test_security.py::test_without_a_token_nothing_is_told_or_done",
    ),
    Bug(
        "every other site's pages let in",
        "web/auth/guard.py", "HEADERS = {", 'HEADERS = {"Access-Control-Allow-Origin": "*",',
        "web/test_security.py::test_pages_of_other_sites_change_nothing",
    ),
    Bug(
        "listening to the whole network",
        "emulator/cli/serve.py", 'default="127.0.0.1:8642"', 'default="0.0.0.0:8642"',
        "web/test_security.py::test_loopback_is_the_default",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our source once more, with its bytecode and without what else is built from it."""
    folder = tmp_path_factory.mktemp("rivals")
    ignored = shutil.ignore_patterns("target", "vendor")
    for part in ("emulator", "web", "tests", "topologies"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def with_bug(copy: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, Bug]]:
    """The copy with the bug in it."""
    bug: Bug = request.param
    file = copy / bug.file
    before = file.read_text()
    assert before.count(bug.ours) == 1, "what it is put in place of stands there no more"
    file.write_text(before.replace(bug.ours, bug.theirs))
    yield copy, bug
    file.write_text(before)


def outcome(folder: Path, *tests: str) -> tuple[int, str]:
    """How tests of the copy end: pytest's exit code and words. They need no plugins, which take longer than they do."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"tests/{test}" for test in tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("with_bug", BUGS, ids=lambda bug: bug.name, indirect=True)
def test_a_bug_that_others_have_is_seen(with_bug: tuple[Path, Bug]) -> None:
    folder, bug = with_bug
    code, said = outcome(folder, bug.test)
    assert code == 1, said
    assert "1 failed" in said, said


def test_without_a_bug_the_copy_passes(copy: Path) -> None:
    assert outcome(copy, BUGS[0].test, BUGS[-1].test)[0] == 0
