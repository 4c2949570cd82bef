"""A program of several modules as an argument of python3, so that a host needs Python and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

_CARRIER = """import json, sys, types
for name, text in json.loads({modules!r}):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
sys.exit(module.main(sys.argv[1:]))
"""
_TOP = Path(__file__).parents[3]


def text(names: Sequence[str]) -> str:
    """The program for `python3 -c`: the modules of these full names in the order of their imports, and what runs
    `main` of the last one."""
    modules = [[name, (_TOP / Path(*name.split("."))).with_suffix(".py").read_text()] for name in names]
    return _CARRIER.format(modules=json.dumps(modules))
