"""Parses YAML text to a tree of dicts, lists and *texts*, in which every key knows its line.

Scalars stay as written, so that "0.0001" never passes through floating point and "on" is a name. It reports what YAML
readers usually ignore: a key given twice, a key without a value, an alias.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from emulator.errors import InputError, Mistake

Path = tuple[str, ...]
Tree = str | list["Tree"] | dict[str, "Tree"]

DEEPEST = 20
"""The deepest nesting that is accepted; our files need less."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, ten times as fast, where PyYAML has it."""

_NOTHING = ("", "~", "null", "Null", "NULL")
"""How YAML 1.1 writes that nothing is there."""


@dataclass
class Source:
    """A file called `where`: its tree, the line of every path in it, and what was wrong so far.

    `lined` False: the tree did not come from lines of text.
    """

    where: str
    tree: Tree = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    lined: bool = True
    hints: list[str] = field(default_factory=list)
    """Notes for the user about valid input."""
    _moves: dict[Path, Path] = field(default_factory=dict)
    _told: set[tuple[str, str]] = field(default_factory=set)

    def moved(self, old: Path, new: Path) -> None:
        """Know the value at a path by another path from now on."""
        self._moves[new] = old

    def at(self, path: Path) -> str:
        """ "file:line" of a path, or of its nearest parent that stands in the file."""
        if not self.lined:
            return self.where
        for depth in range(len(path), 0, -1):
            if old := self._moves.get(path[:depth]):
                path = (*old, *path[depth:])
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.where}:{self.lines.get(path, 1)}"

    def wrong(self, path: Path, text: str) -> None:
        """Record a mistake; a second one at the same path would only follow from the first."""
        where, dotted = self.at(path), ".".join(path)
        if (where, dotted) not in self._told:
            self._told.add((where, dotted))
            self.mistakes.append(Mistake(where, dotted, text))

    def raise_mistakes(self) -> None:
        """Raise InputError with all recorded mistakes, in the order of the lines, if there are any."""
        if self.mistakes:
            raise InputError(sorted(self.mistakes, key=lambda m: int(m.where.rsplit(":", 1)[1]) if self.lined else 0))


def of_json(value: object, where: str) -> Source:
    """A JSON object as a source: its mistakes have a path and no line. Raises InputError for any other value."""
    if not isinstance(value, dict):
        raise InputError.single('not a JSON object: use {"KEY": VALUE}', where)
    source = Source(where, lined=False)
    source.tree = texts(value, source, ())
    return source


def texts(value: object, source: Source, path: Path) -> Tree:
    """A JSON value as a tree of texts; notes values without a text as mistakes."""
    if len(path) > DEEPEST:
        source.wrong(path[:3], f"nested too deep: use at most {DEEPEST} levels")
        return ""
    if isinstance(value, dict):
        return {str(key): texts(part, source, (*path, str(key))) for key, part in value.items()}
    if isinstance(value, list):
        return [texts(part, source, (*path, str(place))) for place, part in enumerate(value)]
    if value is None:
        source.wrong(path, "nothing is given: write a value or leave the key out")
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read(text: str, where: str) -> Source:
    """Parse one YAML document. Raises InputError when it is not YAML at all; other mistakes are noted."""
    source = Source(where)
    try:
        source.tree = _document(source, iter(yaml.parse(text, Loader=_LOADER)))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise InputError.single(f"not YAML: {said}", f"{where}:{line}") from None
    except yaml.YAMLError as error:
        raise InputError.single(f"not YAML: {str(error).splitlines()[0]}", where) from None
    return source


def _document(source: Source, events: Iterator[yaml.Event]) -> dict[str, Tree]:
    """The tree of the only document. Raises InputError when that is no mapping, or not the only one."""
    tree = None
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent) and tree is not None:
            raise InputError.single("not YAML: there is a second document", _line(source, event))
        if isinstance(event, yaml.MappingStartEvent):
            tree = _mapping(source, events, ())
        elif isinstance(event, yaml.NodeEvent):
            break
    if tree is None:
        raise InputError.single("not a mapping: begin with a key such as 'name: new-york'", f"{source.where}:1")
    return tree


def _line(source: Source, event: yaml.Event) -> str:
    return f"{source.where}:{event.start_mark.line + 1 if event.start_mark else 1}"


def _value(source: Source, events: Iterator[yaml.Event], event: yaml.Event, path: Path) -> Tree | None:
    """The value that begins with an event; None when nothing was written. Raises InputError."""
    if isinstance(event, yaml.AliasEvent):
        raise InputError.single(f"alias *{event.anchor}: write the value out", _line(source, event))
    if len(path) > DEEPEST:
        raise InputError.single(f"nested too deep: use at most {DEEPEST} levels", _line(source, event))
    if isinstance(event, yaml.MappingStartEvent):
        return _mapping(source, events, path)
    if isinstance(event, yaml.SequenceStartEvent):
        return _sequence(source, events, path)
    assert isinstance(event, yaml.ScalarEvent)
    empty = event.tag is None and event.implicit[0] and event.value in _NOTHING
    return None if empty or event.tag == "tag:yaml.org,2002:null" else str(event.value)


def _sequence(source: Source, events: Iterator[yaml.Event], path: Path) -> list[Tree]:
    """A list's values; the path of each is its number, from 0."""
    found: list[Tree] = []
    for event in events:
        if isinstance(event, yaml.SequenceEndEvent):
            break
        here = (*path, str(len(found)))
        source.lines[here] = event.start_mark.line + 1 if event.start_mark else 1
        found.append(_value(source, events, event, here) or "")
    return found


def _mapping(source: Source, events: Iterator[yaml.Event], path: Path) -> dict[str, Tree]:
    """A mapping's values by key; notes and omits unusable keys."""
    tree: dict[str, Tree] = {}
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            break
        unusable = _key_trouble(source, event, path)
        here = (*path, event.value if isinstance(event, yaml.ScalarEvent) else "")
        if unusable:
            # Read the value of an unusable key, and ignore it.
            aside = Source(source.where)
            _value(aside, events, event, here)
            _value(aside, events, next(events), here)
            source.mistakes.append(Mistake(_line(source, event), ".".join(unusable[0]), unusable[1]))
            continue
        source.lines[here] = event.start_mark.line + 1 if event.start_mark else 1
        value = _value(source, events, next(events), here)
        if value is None:
            source.wrong(here, "nothing is given: write a value or leave the key out")
        else:
            tree[here[-1]] = value
    return tree


def _key_trouble(source: Source, event: yaml.Event, path: Path) -> tuple[Path, str] | None:
    """Why a key cannot be used, and the path that this is told at; None when it can."""
    if not isinstance(event, yaml.ScalarEvent):
        return path, "a key must be a plain word"
    here = (*path, event.value)
    if here in source.lines:
        return here, f"given twice, first in line {source.lines[here]}"
    return None
