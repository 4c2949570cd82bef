"""The topology files that come with Longhaul, found by their names from any folder."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
FOLDER = next(filter(Path.exists, [_PACKAGE / "topologies"]), _PACKAGE.parent / "topologies")
"""Inside the package where it was installed from a wheel, beside it in a clone."""


def names() -> list[str]:
    """The files' names without `.yaml`, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def shipped(name: str) -> Path:
    """The file of that name (`new-york`), which need not exist."""
    return FOLDER / f"{name}.yaml"


def resolve(path: str | Path) -> Path:
    """The file that the user means: `path` itself, or the one shipped under `new-york` or `topologies/new-york.yaml`.

    A file that exists at `path` always goes first. A folder of a shipped name does not hide it, because no topology is
    read from a folder. `path` is also returned when nothing is found.
    """
    asked = Path(path)
    named = shipped(asked.stem if asked.suffix == ".yaml" else asked.name)
    by_name = asked.parent in (Path(), Path("topologies")) and named.is_file()
    return named if by_name and (asked.is_dir() or not asked.exists()) else asked
