"""One more row in the table of impairments, and one more field: the new key is everywhere at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.folders import ROOT
from support.waiting import PATIENCE_S


def found(folder: Path, *words: str) -> Any:
    """What the program with the made-up key has found."""
    command = [sys.executable, "-m", "support.made_up_key", str(folder), *words]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_key_that_is_in_the_table_alone_is_found_everywhere(tmp_path: Path) -> None:
    assert found(tmp_path) == {
        "files": {
            "read": [1, 1, 2, 3],
            "written": 8,
            "comes back": True,
            "over time": [50, 7],
            "in the schema": True,
        },
        "commands": {"codes": [0, 0], "set": 4, "status": "4%", "shown": True, "help": True},
        "http": {"code": 200, "status": "5%", "keys": "Sparkling", "openapi": True},
        "reference": True,
        "ignored by the lowering": ["sparkle"],
    }


def test_the_panel_sets_it(tmp_path: Path) -> None:
    assert found(tmp_path, "browser") == {"set": [6, 6]}
