"""Old words that files and requests may use for one more release: Longhaul reads them as the new ones, with a hint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.config.yaml_source import Path, Source, Tree
from emulator.model import sweep_axes
from emulator.model.impairment_keys import KEYS

DIRECTIONS = ("outbound", "inbound")


def of_settings() -> dict[str, str]:
    """The old names of impairments, with the new ones."""
    return {key.formerly: key.name for key in KEYS if key.formerly}


def of_lanes() -> dict[str, str]:
    """The old names of a lane's keys, with the new ones."""
    return of_settings() | {"profile": "path_profile"}


def hint(old: str, new: str) -> str:
    """The hint about an old word."""
    return f"{old!r} is now called {new!r}; the old word is read for this release only"


def both(old: str, new: str) -> str:
    """The mistake of writing both words."""
    return f"{old!r} is the old word for {new!r}: write {new} alone"


def renew(source: Source) -> None:
    """Replace the old words of a topology's tree and note a hint for each; both words at once are a mistake."""
    if isinstance(source.tree, dict):
        source.tree = _renewed(source, source.tree)


def _renewed(source: Source, tree: Mapping[str, Tree]) -> dict[str, Tree]:
    found = dict(tree)
    if isinstance(defaults := tree.get("defaults"), dict):
        found["defaults"] = rename(source, defaults, ("defaults",), of_settings())
    if isinstance(sweep := tree.get("sweep"), dict):
        found["sweep"] = rename(source, sweep, ("sweep",), sweep_axes.OLD_WORDS)
    if isinstance(lanes := tree.get("lanes"), dict):
        found["lanes"] = {name: renew_lane(source, lane, ("lanes", name)) for name, lane in lanes.items()}
    return found


def renew_lane(source: Source, tree: Tree, path: Path) -> Tree:
    """Replace the old words of a whole or partial lane's tree, its directions and flows included."""
    if not isinstance(tree, dict):
        return tree
    lane = _with_directions(source, tree, path, of_lanes())
    if isinstance(flows := lane.get("flows"), dict):
        named = {name: _with_directions(source, flow, (*path, "flows", name), of_settings())
                 for name, flow in flows.items() if isinstance(flow, dict)}  # fmt: skip
        lane["flows"] = {**flows, **named}
    return lane


def _with_directions(source: Source, tree: Mapping[str, Tree], path: Path, words: Mapping[str, str]) -> dict[str, Tree]:
    found = rename(source, tree, path, words)
    for side in DIRECTIONS:
        if isinstance(way := found.get(side), dict):
            found[side] = rename(source, way, (*path, side), of_settings())
    return found


def rename(source: Source, tree: Mapping[str, Tree], path: Path, words: Mapping[str, str]) -> dict[str, Tree]:
    """Replace the old words of the mapping at that path."""
    return dict(_pairs(source, tree, path, words))


def _pairs(
    source: Source, tree: Mapping[str, Tree], path: Path, words: Mapping[str, str]
) -> Iterator[tuple[str, Tree]]:
    for key, value in tree.items():
        new = words.get(key, key)
        here = (*path, key)
        if new != key and new in tree:
            source.wrong(here, both(key, new))
            continue
        if new != key:
            source.hints.append(f"{source.at(here)}: {'.'.join(here)}: {hint(key, new)}")
            source.moved(here, (*path, new))
        yield new, value
