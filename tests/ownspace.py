"""A session of a test in namespaces of its own, as root: whatever happens, nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OWN = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
"""A network, a process table and a /run of the session's own."""
TIMEOUT_S = 600


def found_by(session: str) -> dict[str, Any]:
    """What the script beside this file printed as JSON."""
    script = 'mount -t tmpfs run /run && exec "$@"'
    argv = [*OWN, "sh", "-c", script, "sh", sys.executable, str(Path(__file__).with_name(session))]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
