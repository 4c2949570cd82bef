"""Imports pyroute2 by its parts: the package imports all of them at once, which doubles the start time of commands."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any


def install() -> None:
    """Replace pyroute2 by a package that loads a known part on demand, and everything on any other access."""
    spec = importlib.util.find_spec("pyroute2")
    if "pyroute2" in sys.modules or spec is None or spec.loader is None:
        return
    package, loader = importlib.util.module_from_spec(spec), spec.loader

    def part(name: str) -> Any:
        try:
            return importlib.import_module(f"pyroute2.{name}")
        except ModuleNotFoundError:
            del package.__dict__["__getattr__"]
            loader.exec_module(package)
            return getattr(package, name)

    package.__dict__["__getattr__"] = part
    sys.modules["pyroute2"] = package
