"""The folder of the state, as the environment names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.system import state_dir


@pytest.mark.parametrize(("given", "folder"), [("", state_dir.STATE_DIR), ("/x", "/x"), ("x", "x")])
def test_an_empty_variable_names_no_folder(given: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # An empty path would be the current folder.
    monkeypatch.setenv("LONGHAUL_STATE", given)
    assert state_dir.state_dir() == Path(folder)
