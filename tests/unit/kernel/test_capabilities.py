"""What this machine's kernel can do is the same answer with fewer rights."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from emulator.kernel import capabilities

CODE = "from emulator.kernel import capabilities; print(capabilities.try_netem())"


def asked(bounding: str) -> str:
    command = ["setpriv", "--inh-caps=-all", f"--bounding-set=-all{bounding}", sys.executable, "-c", CODE]
    return subprocess.check_output(command, text=True).strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives rights away")
def test_net_admin_alone_tells_whether_there_is_netem() -> None:
    """By a request that every kernel refuses."""
    assert asked(",+net_admin") == str(capabilities.try_netem())
    assert asked("") == "None", "without it nobody may try"
