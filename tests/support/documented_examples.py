"""The documentation's examples: what is shown, and whether what came out agrees with it.

A block that is run stands below a comment `<!-- run: PLACE -->`, PLACE being `host` or `lab`. In it, lines that begin
with "$ " are commands and the lines below them their output; a line "..." stands for any lines. A block that cannot be
run stands below `<!-- not run: REASON -->`; its commands are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.folders import ROOT

DOCS = ROOT / "emulator/docs"
BLOCK = re.compile(r"<!-- run: (?P<place>host|lab) -->\n```console\n(?P<body>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One command of a page, where it runs, its line there, and the output shown."""

    page: str
    place: str
    line: int
    command: str
    output: str

    @property
    def where(self) -> str:
        """The page and the line."""
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page: the README, those at the top of the repository, and the documentation."""
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]


def examples(page: Path) -> Iterator[Example]:
    """Every example of a page that is run, in order."""
    text = page.read_text()
    for block in BLOCK.finditer(text):
        line = text[: block.start("body")].count("\n") + 1
        for part in re.split(r"^(?=\$ )", block["body"], flags=re.MULTILINE)[1:]:
            command, _, output = part.removeprefix("$ ").partition("\n")
            yield Example(page.name, block["place"], line, command, output)
            line += part.count("\n")


def agrees(shown: str, real: str) -> bool:
    """Whether real output is what is shown; trailing blanks do not count, "..." alone in a line is any lines."""
    lines = [line.rstrip() for line in shown.strip("\n").split("\n")]
    pattern = "\n".join(r"(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in lines)
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in real.strip("\n").split("\n"))) is not None
