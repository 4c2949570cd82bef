"""The folder for intent and history."""

from __future__ import annotations

import os
from pathlib import Path

STATE_DIR = "/var/lib/longhaul"


def state_dir() -> Path:
    """The folder for intent and history: $LONGHAUL_STATE, or /var/lib/longhaul."""
    return Path(os.environ.get("LONGHAUL_STATE") or STATE_DIR)
