"""Golden texts: files that hold the exact text which the product prints.

After an intended change: LONGHAUL_GOLDEN=write pytest tests/unit, and review the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

WRITE = os.environ.get("LONGHAUL_GOLDEN") == "write"


def golden(file: Path, text: str) -> str:
    """The content of a golden file; the text itself, written to the file, when golden files are rewritten."""
    if WRITE:
        file.write_text(text, "utf-8")
    return file.read_text("utf-8")
