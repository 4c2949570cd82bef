"""The unit file as systemd reads it, and the installation of an appliance, into a folder."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.folders import ROOT
from support.waiting import PATIENCE_S

from emulator.cli import serve

UNIT = ROOT / "scripts/longhaul.service"
WORST_EXPOSURE = 5.0
"""systemd's own figure for the unit, 0 to 10; a daemon with three such capabilities cannot come near 0."""


def run(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning", **environment}
    return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=env)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An appliance below a folder. Its environment is taken for installed already: PyPI is not asked."""
    root = tmp_path_factory.mktemp("root")
    venv = root / "opt/longhaul/.venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/longhaul").write_text("#!/bin/sh\n")
    (venv / "bin/longhaul").chmod(0o755)
    shutil.copy(ROOT / "uv.lock", venv / "longhaul-run.lock")
    ran = run(str(ROOT / "scripts/install"), "--appliance", DESTDIR=str(root))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "start it yourself: longhaul serve" in ran.stdout
    return root


def test_all_that_the_unit_names_is_installed(installed: Path) -> None:
    unit = (installed / "etc/systemd/system/longhaul.service").read_text()
    command = re.search(r"^ExecStart=(\S+)", unit, re.MULTILINE)
    assert command
    link = Path(str(installed) + command[1])
    assert link.is_symlink()
    assert Path(f"{installed}{link.readlink()}").exists()
    for name in ("bridges-up", "bridges-down", "latency-on", "latency-off"):
        assert os.access(f"{installed}{(installed / 'usr/local/bin' / name).readlink()}", os.X_OK)
    assert (installed / "opt/longhaul/emulator/control/watchdog_loop.py").read_text() == (
        ROOT / "emulator/control/watchdog_loop.py"
    ).read_text()


def test_installing_again_changes_nothing_but_what_is_new(installed: Path) -> None:
    stale = installed / "opt/longhaul/emulator/stale.py"
    stale.write_text("")
    assert run(str(ROOT / "scripts/install"), "--appliance", DESTDIR=str(installed)).returncode == 0
    assert not stale.exists()


def test_systemd_finds_no_fault_in_the_unit(installed: Path) -> None:
    """In a tree of its own, where the command exists."""
    unit = installed / "etc/systemd/system/longhaul.service"
    text = unit.read_text().replace("/usr/local/bin/longhaul", "/bin/true")
    copy = installed / "longhaul.service"
    copy.write_text(text)
    ran = run("systemd-analyze", "verify", "--man=no", str(copy))
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_unit_is_as_closed_as_its_work_allows() -> None:
    ran = run(
        "systemd-analyze",
        "security",
        "--offline=yes",
        "--no-pager",
        f"--threshold={WORST_EXPOSURE * 10:.0f}",
        str(UNIT),
    )
    exposure = re.search(r"Overall exposure level for longhaul.service: (\S+)", ran.stdout)
    assert exposure, ran.stdout + ran.stderr
    assert float(exposure[1]) <= WORST_EXPOSURE


def test_the_unit_asks_for_four_capabilities_and_keeps_the_mounts_of_the_machine() -> None:
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["CapabilityBoundingSet"].split() == [
        "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN", "CAP_SYS_NICE",
    ]  # fmt: skip
    assert (service["Type"], service["StateDirectory"], service["Restart"]) == ("notify", "longhaul", "always")
    assert service["KillMode"] == "process", "the wire engines would be killed with the daemon, and the lanes with them"
    assert service["LONGHAUL_STATE"] if "LONGHAUL_STATE" in service else "LONGHAUL_STATE" in service["Environment"]
    refused = (service["MemoryDenyWriteExecute"], "ptrace" in service["SystemCallFilter"])
    assert refused == ("yes", False), "it has what labs need: say so in emulator/docs/security.md and lab.md"
    hiding = ("ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateMounts", "PrivateDevices", "ProtectKernelTunables")
    assert [key for key in hiding if key in service] == [], "/run/netns would be a copy that nobody else sees"


def test_in_the_journal_serve_speaks_as_the_watchdog_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "9:1")
    serve._report("http://127.0.0.1:8642/", "/var/lib/longhaul/token", as_json=False)
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err == "<6>level=info event=serving url=http://127.0.0.1:8642/ token=/var/lib/longhaul/token\n"


def test_without_root_an_appliance_is_refused() -> None:
    if os.geteuid() != 0:
        ran = run(str(ROOT / "scripts/install-appliance"))
    else:
        ran = run(
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(ROOT / "scripts/install-appliance")
        )
    assert ran.returncode == 4
    assert "as root: sudo scripts/install --appliance" in ran.stderr
