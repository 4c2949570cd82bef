"""The `profile:` of a lane: of what `longhaul record` wrote of a path, the settings that are a lane's."""

from __future__ import annotations

from pathlib import Path

from emulator.config import yaml_source
from emulator.errors import InputError

PROFILE, FORMAT = "profile.yaml", 1
"""The file in a path profile's folder, and the version of its format."""

SETTINGS = ("delay", "jitter", "distribution", "loss", "rate")


def settings(path: Path) -> tuple[Path, dict[str, dict[str, yaml_source.Tree]]]:
    """What a path profile says of each direction, as it is written there, and the folder that its tables stand in.

    `path` is its folder, or the file itself. Raises ValueError.
    """
    file = path / PROFILE if path.is_dir() else path
    try:
        source = yaml_source.read(file.read_text("utf-8", errors="replace"), str(file))
        source.raise_mistakes()
    except OSError as error:
        raise ValueError(f"{file} cannot be read: {error.strerror}; longhaul record writes path profiles") from None
    except InputError as error:
        raise ValueError(str(error)) from None
    tree = source.tree if isinstance(source.tree, dict) else {}
    if tree.get("path_profile") != str(FORMAT):
        raise ValueError(f"{file} is no path profile of format {FORMAT}: longhaul record writes them")
    return file.parent, {side: _settings(tree.get(side)) for side in ("outbound", "inbound")}


def _settings(said: yaml_source.Tree | None) -> dict[str, yaml_source.Tree]:
    if not isinstance(said, dict) or "delay" not in said:
        raise ValueError("the path profile lacks the delay of a direction")
    return {key: said[key] for key in SETTINGS if key in said}
