"""The README's examples: what is shown, and whether what came out agrees with it.

A block of the README that is run stands below a comment `<!-- run: PLACE -->`, PLACE being `host` or `lab`. In it,
lines that begin with "$ " are commands and the lines below them their output; a line "..." stands for any lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"<!-- run: (?P<place>host|lab) -->\n```console\n(?P<body>.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One command of the README, where it runs, its line there, and the output shown."""

    place: str
    line: int
    command: str
    output: str


def examples(readme: Path) -> list[Example]:
    """Every example that is run, in order."""
    text = readme.read_text()
    found = []
    for block in BLOCK.finditer(text):
        line = text[: block.start("body")].count("\n") + 1
        for part in re.split(r"^(?=\$ )", block["body"], flags=re.MULTILINE)[1:]:
            command, _, output = part.removeprefix("$ ").partition("\n")
            found.append(Example(block["place"], line, command, output))
            line += part.count("\n")
    return found


def agrees(shown: str, real: str) -> bool:
    """Whether real output is what is shown; trailing blanks do not count, "..." alone in a line is any lines."""
    lines = [line.rstrip() for line in shown.strip("\n").split("\n")]
    pattern = "\n".join(r"(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in lines)
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in real.strip("\n").split("\n"))) is not None
