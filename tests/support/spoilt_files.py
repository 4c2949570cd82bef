"""What can become of a file that a program keeps: other bytes, other JSON, or something that is no file."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
Spoil = Callable[[Path], None]


def bytes_of(content: bytes) -> Spoil:
    """The file with this content."""

    def spoil(file: Path) -> None:
        remove(file)
        file.write_bytes(content)

    return spoil


def cut(share: float) -> Spoil:
    """Only the first part of what the file holds."""

    def spoil(file: Path) -> None:
        content = file.read_bytes() if file.is_file() else b"{}"
        bytes_of(content[: int(len(content) * share)])(file)

    return spoil


def changed(place: int, value: Any) -> Spoil:
    """The file's JSON with another value at one place, counted through all of them."""

    def spoil(file: Path) -> None:
        try:
            tree = json.loads(file.read_bytes())
        except (OSError, ValueError):
            tree = {}
        places = list(_places(tree))
        if places:
            where, key = places[place % len(places)]
            where[key] = value
        bytes_of(json.dumps(tree).encode())(file)

    return spoil


def _places(tree: Any) -> Any:
    """Every container and key below a JSON value."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def remove(file: Path) -> None:
    """Whatever is there goes."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)


def folder(file: Path) -> None:
    """A folder with something in it."""
    remove(file)
    file.mkdir()
    (file / "something").write_text("")


def loop(file: Path) -> None:
    """A link that leads to itself."""
    remove(file)
    file.symlink_to(file.name)


def dangling(file: Path) -> None:
    """A link that leads nowhere."""
    remove(file)
    file.symlink_to("nowhere")


def pipe(file: Path) -> None:
    """A named pipe, of which nobody writes a byte."""
    remove(file)
    os.mkfifo(file)


def endless(file: Path) -> None:
    """A link to a device that has no end."""
    remove(file)
    file.symlink_to("/dev/zero")


SHAPES = [
    folder,
    loop,
    dangling,
    pipe,
    endless,
    bytes_of(b"[" * 200_000),
    bytes_of(b'{"format": 1, "x": ' * 5000),
    bytes_of(b""),
]

spoils = (
    st.sampled_from(SHAPES)
    | st.binary(max_size=200).map(bytes_of)
    | JSON.map(lambda value: bytes_of(json.dumps(value).encode()))
    | st.dictionaries(st.sampled_from(["format", "topology", "change", "pending", "before", "after"]), JSON).map(
        lambda value: bytes_of(json.dumps({"format": 1, **value}).encode())
    )
    | st.floats(0, 0.99).map(cut)
    | st.builds(changed, st.integers(0, 1000), JSON | st.integers(-(10**40), 10**40))
)
"""Ways to spoil a file."""
