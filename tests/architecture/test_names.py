"""Each class of the product has a name of its own: one name, one meaning."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from support.folders import ROOT


def class_names(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Where each class is defined, by its name; a leading underscore makes no other name."""
    found = defaultdict[str, list[str]](list)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{path.name}:{node.lineno}")
    return found


def shared(names: dict[str, list[str]]) -> dict[str, list[str]]:
    """The names that more than one class has."""
    return {name: places for name, places in names.items() if len(places) > 1}


def test_no_two_classes_have_one_name() -> None:
    paths = [path for top in ("emulator", "web") for path in sorted((ROOT / top).rglob("*.py"))]
    assert shared(class_names(paths)) == {}


def test_a_second_class_of_one_name_is_seen(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Row: ...\nclass Other: ...\n")
    (tmp_path / "two.py").write_text("def make():\n    class _Row: ...\n")
    assert shared(class_names(sorted(tmp_path.iterdir()))) == {"Row": ["one.py:1", "two.py:2"]}
