"""Tables and lists as GitHub-flavoured Markdown, in which every text stays the text that it is. Pure text."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from emulator.report.tables import LEGEND, Table

Lines = tuple[str, Sequence[str]]
"""A heading and the items below it."""
_MARKUP = re.compile(r"[\\`*\[\]~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""What begins or ends markup inside a line; an underscore inside a word does not."""
_ENTITIES = {"|": "&#124;", "$": "&#36;"}
"""A backslash does not keep a pipe in its cell everywhere; GitHub reads a formula between two dollars."""
_FIRST = re.compile(r"^(?:([0-9]{1,9})(?=[.)](?: |$)))?([#+=.)-])")
"""What may begin a heading, an item, or a line below a heading, at the beginning of a line."""
_UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")


def inline(text: str) -> str:
    """The text as part of a line, which a renderer shows as it is: no markup, no HTML, no end of a cell.

    Line ends and runs of blanks become one blank. U+FFFD stands for control characters.
    """
    line = html.escape(_UNSEEN.sub("\ufffd", " ".join(text.split())), quote=False)
    return "".join(_ENTITIES.get(character, character) for character in _MARKUP.sub(r"\\\g<0>", line))


def sentence(text: str) -> str:
    """The text as a line of its own."""
    return _FIRST.sub(r"\1\\\2", inline(text))


def code(text: str) -> str:
    """The text as code, of one line."""
    return f"<code>{inline(text)}</code>"


def table(shown: Table) -> str:
    """The table without its title and without the sentences below it."""
    sides = [":---" if name in shown.left else "---:" for name in shown.header]
    lines = [[*map(inline, shown.header)], sides, *([*map(inline, row)] for row in shown.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def items(lines: Sequence[str]) -> str:
    """The lines as a list."""
    return "\n".join(f"- {sentence(line)}" for line in lines)


def document(title: str, tables: Sequence[Table], lists: Sequence[Lines], legend: str = LEGEND) -> str:
    """The legend, all tables and then the lists as one Markdown document, without empty ones."""
    parts = [f"# {inline(title)}", sentence(legend)]
    for one in tables:
        parts += [f"## {inline(one.title)}", table(one), *map(sentence, one.below)]
    for heading, lines in lists:
        parts += [f"## {inline(heading)}", items(lines)] if lines else []
    return "\n\n".join(parts) + "\n"
