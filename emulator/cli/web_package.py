"""The package `web` where Longhaul was installed from a wheel: inside `emulator`, so that site-packages has none of it.

Another distribution may own the name `web` there. Only Longhaul's own processes call the package by it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "web"


def provide(folder: Path = FOLDER) -> None:
    """Make `import web` mean Longhaul's; in a clone, where it lies beside `emulator`, it does already."""
    if not folder.exists():
        return
    start = folder / "__init__.py"
    spec = importlib.util.spec_from_file_location("web", start, submodule_search_locations=[str(folder)])
    assert spec
    assert spec.loader
    if getattr(sys.modules.get("web"), "__file__", None) == str(start):
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["web"] = module
    spec.loader.exec_module(module)
