"""One release for all tests of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.releases import released


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released(tmp_path_factory.mktemp("dist"), 0o022, "UTC")
