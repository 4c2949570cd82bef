"""The `path_profile:` of a lane: reads a lane's settings from the files that `longhaul record` wrote."""

from __future__ import annotations

from pathlib import Path

from emulator.config import yaml_source
from emulator.errors import InputError
from emulator.system import bounded_file

PROFILE, FORMAT = "profile.yaml", 1
"""The file in a path profile's folder, and the version of its format."""

SETTINGS = ("delay", "jitter", "distribution", "loss", "rate")


def settings(path: Path) -> tuple[Path, dict[str, dict[str, yaml_source.Tree]]]:
    """The settings of each direction as the path profile's file holds them, and the folder of its tables.

    `path` is the profile's folder, or the file itself. Raises ValueError.
    """
    file = path / PROFILE if path.is_dir() else path
    try:
        text = bounded_file.read_text(file, bounded_file.PATH_PROFILE, errors="replace")
        source = yaml_source.read(text, str(file))
        source.raise_mistakes()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}; longhaul record writes path profiles") from None
    except InputError as error:
        raise ValueError(str(error)) from None
    tree = source.tree if isinstance(source.tree, dict) else {}
    if tree.get("path_profile") != str(FORMAT):
        raise ValueError(f"{file} is not a path profile of format {FORMAT}: use a folder that longhaul record wrote")
    return file.parent, {side: _settings(tree.get(side)) for side in ("outbound", "inbound")}


def _settings(said: yaml_source.Tree | None) -> dict[str, yaml_source.Tree]:
    if not isinstance(said, dict) or "delay" not in said:
        raise ValueError("the path profile lacks the delay of a direction")
    return {key: said[key] for key in SETTINGS if key in said}
