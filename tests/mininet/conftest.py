"""What the lab's image lacks for Mininet."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def which() -> None:
    """Mininet looks for programs with `which`; the image has Debian's, less the link that its package makes."""
    if not shutil.which("which"):
        Path("/usr/local/bin/which").symlink_to("/usr/bin/which.debianutils")
