"""Parses YAML text to a tree of dicts, lists and *texts*, in which every key knows its line.

Scalars stay as written, so that "0.0001" never passes through floating point and "on" is a name. It reports what YAML
readers usually ignore: a key given twice, a key without a value, an alias.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

from emulator.errors import InputError, Mistake

Path = tuple[str, ...]
Tree = str | list["Tree"] | dict[str, "Tree"]

DEEPEST = 20
"""The deepest nesting that is accepted; our files need less."""


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

    def moved(self, old: Path, new: Path) -> None:
        """What stands at a path is known by another one from now on."""
        for path, line in list(self.lines.items()):
            if path[: len(old)] == old:
                self.lines[(*new, *path[len(old) :])] = line

    def at(self, path: Path) -> str:
        """ "file:line" of a path, or of its nearest parent that stands in the file."""
        if not self.lined:
            return self.where
        while path and path not in self.lines:
            path = path[:-1]
        return f"{self.where}:{self.lines.get(path, 1)}"

    def wrong(self, path: Path, text: str) -> None:
        """Record a mistake; a second one at the same path would only follow from the first."""
        where, dotted = self.at(path), ".".join(path)
        if (where, dotted) not in {(m.where, m.path) for m in self.mistakes}:
            self.mistakes.append(Mistake(where, dotted, text))

    def raise_mistakes(self) -> None:
        """Raise InputError with all recorded mistakes, in the order of the lines, if there are any."""
        if self.mistakes:
            raise InputError(sorted(self.mistakes, key=lambda m: int(m.where.rsplit(":", 1)[1]) if self.lined else 0))


def of_json(value: object, where: str) -> Source:
    """A JSON object as a source, so that mistakes have a path and no line. Raises InputError when it is no object."""
    if not isinstance(value, dict):
        raise InputError.single("an object was expected", where)
    source = Source(where, lined=False)
    source.tree = texts(value, source, ())
    return source


def texts(value: object, source: Source, path: Path) -> Tree:
    """A JSON value as a tree of texts; what has no text is noted as a mistake."""
    if len(path) > DEEPEST:
        source.wrong(path[:3], "nested far too deep")
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
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise InputError.single(f"alias *{event.anchor}: write the value out", f"{where}:{line}")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise InputError.single(f"not YAML: {said}", f"{where}:{line}") from None
    except yaml.YAMLError as error:
        raise InputError.single(f"not YAML: {str(error).splitlines()[0]}", where) from None
    except RecursionError:
        raise InputError.single("not understood: nested far too deep", where) from None
    if node is None or not isinstance(node, yaml.MappingNode):
        raise InputError.single("a mapping such as 'name: new-york' was expected", f"{where}:1")
    source.tree = _mapping(source, node, ())
    return source


def _value(source: Source, node: yaml.Node, path: Path) -> Tree | None:
    """A node's value; None when nothing was written."""
    if isinstance(node, yaml.MappingNode):
        return _mapping(source, node, path)
    if isinstance(node, yaml.SequenceNode):
        return [_item(source, item, (*path, str(index))) for index, item in enumerate(node.value)]
    return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)


def _item(source: Source, node: yaml.Node, path: Path) -> Tree:
    """A value of a list; its path is its number, from 0."""
    source.lines[path] = node.start_mark.line + 1
    return _value(source, node, path) or ""


def _mapping(source: Source, node: yaml.MappingNode, path: Path) -> dict[str, Tree]:
    """A mapping's values by key; keys that are unusable are noted and left out."""
    tree: dict[str, Tree] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            source.mistakes.append(Mistake(f"{source.where}:{line}", ".".join(path), "a key must be a plain word"))
            continue
        key = str(key_node.value)
        here = (*path, key)
        if key in tree:
            text = f"given twice, first in line {source.lines[here]}"
            source.mistakes.append(Mistake(f"{source.where}:{line}", ".".join(here), text))
            continue
        source.lines[here] = line
        value = _value(source, value_node, here)
        if value is None:
            source.wrong(here, "nothing is given: write a value or leave the key out")
        else:
            tree[key] = value
    return tree
