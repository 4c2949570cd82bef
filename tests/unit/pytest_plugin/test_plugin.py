"""The pytest plugin in the suite of a user's project: a pytest of its own, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.folders import ROOT
from support.golden import golden

from emulator.errors import InputError, LabError, LabStalled
from emulator.lab import boot
from emulator.pytest_plugin.measure import check_lab_options, give_up
from emulator.pytest_plugin.plugin import grid
from emulator.pytest_plugin.values import LonghaulLane

ALONE = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
"""Of the environment's plugins none is loaded: ours would be there twice, and others would have their say."""
PROGRAM = """
import pytest

PROGRAM = {
    "server": "cd $PROJECT/pages && exec python3 -m http.server 8000",
    "ready": "tcp:8000",
    "client": "python3 $PROJECT/get.py http://{server}:8000/page",
}
"""
GET = "import sys, urllib.request as u; print(len(u.urlopen(sys.argv[1]).read()), 'bytes')\n"
MEASURED = (
    PROGRAM
    + """
def test_download(lane, run):
    cell = run(**PROGRAM, lane=lane(rtt="80ms", rate="1gbit"))
    assert cell.stdout == "40000 bytes\\n" and "GET /page" in cell.server_stderr
    assert cell.valid and cell.connections == 1 and 40_000 < cell.received_bytes < 41_000
    assert cell.rtt_seconds == 0.08 and len(cell.all_seconds) == 5
    assert cell.first_byte_seconds == pytest.approx(0.16, abs=1e-3)
    assert cell.seconds < 0.25

def test_too_slow(lane, run):
    cell = run(**PROGRAM, lane=lane(rtt="80ms", rate="1gbit"))
    assert cell.seconds < 0.2

@pytest.mark.longhaul(rtt=["80ms", "10ms"], rate="1gbit")
def test_grid(run, longhaul_lane, longhaul_lab):
    before = len(longhaul_lab.known)
    assert run(**PROGRAM).round_trips == pytest.approx(3, abs=0.2)
    assert len(longhaul_lab.known) - before == (0 if longhaul_lane.rtt == "80ms" else 1)

def test_law(run, lane):
    law = run.law(rtt=["10ms", "80ms", "200ms"], lane=lane(rate="1gbit"), **PROGRAM)
    assert law.round_trips == pytest.approx(3, abs=0.05)
    assert law.seconds_at("346ms") == pytest.approx(3 * 0.346, abs=0.01)

def test_failing_program(lane, run):
    run(client="echo one; echo two >&2; exit 3", lane=lane(rtt="80ms"))
"""
)
MISTAKES = (
    PROGRAM
    + """
def test_values(lane, run):
    run(client="get {servr}", server="serve", lane=lane(rtt="80xs", rate="1 apple"))

def test_range(lane, run):
    run(**PROGRAM, repeat=0, lane=lane(rtt="80ms"))

def test_keyword(lane, run):
    run(sever="serve", client="get", lane=lane(rtt="80ms"))

def test_no_client(lane, run):
    run(server="serve", lane=lane(rtt="80ms"))

def test_no_lane(run):
    run(**PROGRAM)

def test_no_rtt(lane, run):
    run(**PROGRAM, lane=lane(rate="1gbit"))

def test_no_file(lane, run):
    run(**PROGRAM, lane=lane(file="no-such.yaml", name="japan"))

def test_one_rtt(run):
    run.law(**PROGRAM, rtt="80ms")

def test_no_marker(longhaul_lane):
    pass

def test_several_values(lane, run):
    run(**PROGRAM, lane=lane(rtt=["10ms", "80ms"]))

def test_no_lane_but_a_text(run):
    run(**PROGRAM, lane="80ms")

def test_no_such_program(lane, run):
    run(client="no-such-program", lane=lane(rtt="80ms"))
"""
)
UNKNOWN_SETTING = """
import pytest

@pytest.mark.longhaul(rtt="80ms", speed="1gbit")
def test_setting(run):
    pass
"""
NO_VALUE = """
import pytest

@pytest.mark.longhaul(rtt=[])
def test_never(run):
    pass
"""
UNUSED_MARKER = """
import pytest

@pytest.mark.longhaul(rtt="80ms")
def test_without_fixture():
    pass
"""


def inner(folder: Path, tests: Mapping[str, str], *arguments: str, **env: str) -> str:
    """What pytest prints of a project with these test files."""
    for name, text in tests.items():
        (folder / name).write_text(text)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    plugin = ["-p", "emulator.pytest_plugin.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rfEs", "--rootdir", folder, *plugin, *arguments, *tests],
        cwd=folder, env={**plain, "PYTHONPATH": str(ROOT), "COLUMNS": "120", ALONE: "1", **env}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout + done.stderr


def failures(printed: str, folder: Path) -> str:
    """The name of each failed test, and what its failure says."""
    lines = [
        line for line in printed.splitlines() if re.match(r"E  |_+ [\w\[\]. ]+ _+$|@pytest|longhaul_lane needs", line)
    ]
    text = "\n".join(re.sub(r"^_+ (.*) _+$", r"\n\1", line).removeprefix("E   ").strip(" ") for line in lines)
    return text.replace(str(folder), "PROJECT").lstrip() + "\n"


def test_cells_of_a_project_are_measured(tmp_path: Path) -> None:
    boot.built()
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/page").write_bytes(bytes(40_000))
    (tmp_path / "get.py").write_text(GET)
    printed = inner(tmp_path, {"test_project.py": MEASURED}, "-v", "-W", "error")
    outcomes = dict(re.findall(r"::(\S+) (PASSED|FAILED|ERROR)", printed))
    assert outcomes == {
        "test_download": "PASSED", "test_grid[80ms]": "PASSED", "test_grid[10ms]": "PASSED", "test_law": "PASSED",
        "test_failing_program": "FAILED", "test_too_slow": "FAILED",
    }, printed  # fmt: skip
    assert re.search(
        r"^<cell at 80 ms, 1 Gbit/s: 240 ms, limited by round trips>\n    1.0 round trips for", printed, re.M
    )
    assert printed.count(f"by hand: longhaul sweep --in-lab --project {tmp_path} --rtt 80ms --rate 1gbit") == 1
    said = re.sub(r"0\.240\d+", "0.240", failures(printed, tmp_path))
    assert said == golden(ROOT / "tests/golden/pytest_plugin/failures.txt", said)


def test_mistakes_are_those_of_the_command_line(tmp_path: Path) -> None:
    boot.built()
    tests = {"test_mistakes.py": MISTAKES, "test_setting.py": UNKNOWN_SETTING, "test_unused.py": UNUSED_MARKER}
    tests["test_value.py"] = NO_VALUE
    said = failures(inner(tmp_path, tests, "-W", "error", "--continue-on-collection-errors"), tmp_path)
    assert said == golden(ROOT / "tests/golden/pytest_plugin/mistakes.txt", said)


def test_a_number_is_the_text_of_the_command_line() -> None:
    lane = LonghaulLane(rtt=80, mtu=9000)  # type: ignore[arg-type]
    assert list(lane.options())[:4] == ["--rtt", "80", "--mtu", "9000"]
    assert lane.rtt.split(",") == ["80"]


def test_an_option_that_is_none_of_the_lab_is_refused() -> None:
    check_lab_options(["--with", "nginx,curl", "--clock=counted"])
    with pytest.raises(InputError, match="longhaul_lab: there is no option '--pcap': use --with, --root, --host-root"):
        check_lab_options(["--pcap", "--host-root"])


def test_a_lab_that_cannot_run_here_fails_a_test() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"no ptrace\nlonghaul doctor tells .*\nby hand: longhaul sweep"):
        give_up(LabError("no ptrace"), "longhaul sweep", skips=False)
    with pytest.raises(pytest.fail.Exception):
        give_up(LabStalled("the clock stands still"), "longhaul sweep", skips=True)


def test_a_lab_that_cannot_run_here_skips_a_test_if_that_is_wanted(tmp_path: Path) -> None:
    boot.built()
    test = 'def test_it(lane, run):\n    run(client="true", lane=lane(rtt="80ms"))\n'
    printed = inner(tmp_path, {"test_it.py": test}, "--longhaul-skip", TMPDIR="/no/such/folder")
    assert "1 skipped" in printed and "/no/such/folder is not writable" in printed, printed


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import pytest, sys; a = set(sys.modules); import emulator.pytest_plugin.plugin; print(*set(sys.modules) - a)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    ours = {name for name in done.stdout.split() if name.startswith("emulator.") and "pytest_plugin" not in name}
    others = {name.partition(".")[0] for name in done.stdout.split()} - sys.stdlib_module_names - {"emulator"}
    assert (ours, others) == ({"emulator.errors"}, set())


def test_ids_are_the_settings_that_vary() -> None:
    lanes, ids = grid({"rtt": ["10ms", "80ms"], "rate": "1gbit", "loss": ("0%", "1%")})
    assert ids == ["10ms-0%", "10ms-1%", "80ms-0%", "80ms-1%"]
    assert [*lanes[1].options()] == ["--rtt", "10ms", "--rate", "1gbit", "--loss", "1%", "--tcp-profile", "default"]
    assert grid({"rtt": "80ms", "cc": "bbr"})[1] == ["80ms-bbr"]
