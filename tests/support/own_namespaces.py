"""A session of a test in namespaces of its own, as root: whatever happens, nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from support.folders import ROOT, TESTS

OWN = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
"""A network, a process table and a /run of the session's own."""
TIMEOUT_S = 1800


def found_by(session: str, *arguments: str) -> dict[str, Any]:
    """What the module of `support` of that name printed as JSON."""
    script = 'mount -t tmpfs run /run && exec "$@"'
    argv = [*OWN, "sh", "-c", script, "sh", sys.executable, "-m", f"support.{session}", *arguments]
    done = subprocess.run(
        argv,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
