"""Only its own module knows how iperf3 counts: a second workload needs no change anywhere else."""

from __future__ import annotations

import re

from support.folders import ROOT

HOME = "emulator/hosts/tools/iperf3.py"
NAMED = {
    "emulator/hosts/tools/workloads.py": "the list of workloads, and which tool the other procedures use",
    "emulator/hosts/tools/__init__.py": "says which programs measure",
    "emulator/control/doctor.py": "tells whether it is installed",
    "emulator/errors.py": "gives examples of tools",
    "emulator/lab/build_image.py": "installs it",
    "emulator/lab/build_kernel.py": "says for whom the kernel is patched",
    "emulator/report/published_results.py": "says how others measured",
    "emulator/cli/record.py": "tells the user what must run at the far end",
}
"""Who may name the tool besides, and why."""
COUNTING = re.compile(r"sum_received|sum_sent|server_output|get-server-output|--bidir|blksize|snd_cwnd|cpu_utilization")


def product() -> dict[str, str]:
    files = [*(ROOT / "emulator").rglob("*.py"), *(ROOT / "web").rglob("*.py")]
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


def test_few_name_the_tool() -> None:
    users = {name for name, text in product().items() if re.search("iperf3", text, re.IGNORECASE)}
    assert users - {HOME} <= NAMED.keys()


def test_nobody_else_knows_how_it_counts() -> None:
    assert [name for name, text in product().items() if COUNTING.search(text)] == [HOME]
