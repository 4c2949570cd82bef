"""The private dialect of the first versions stays away: no sentence of the product or its documents uses these words.

A sentence is a docstring, a comment or a string with a blank in it; in a page, a script or a document it is any text.
Names in backquotes and strings of one word (keys, file names) are not sentences.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIALECT = {
    "mend": r"mend(?:s|ed|ing)?",
    "desire": r"desires?",
    "wish": r"wish(?:es|ed)?",
    "lend": r"lent|lends?|lending",
    "borrow": r"borrow(?:s|ed|er|ers|ing)?",
    "give back": r"g(?:ives?|ave|iven|iving) (?:it |them )?back",
    "take back": r"t(?:akes?|ook|aken|aking) (?:it |them )?back",
    "put right": r"puts? (?:it |them )?right|putting right",
    "tell of": r"t(?:ells?|old|elling) of",
    "hear of": r"hear(?:s|d|ing)? of",
    "come what may": r"come what may",
    "was expected": r"(?:was|were) expected",
    "says not": r"says? not(?: of)? what",
    "behind our back": r"behind (?:our|your) backs?",
}
"""What to avoid, as a regular expression. Say repair, intent, lease, return, revert, report, and what to use."""


def tracked(*patterns: str) -> list[str]:
    """The files of the repository that match, with the new ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in listed if "/vendor/" not in name and (ROOT / name).exists()]


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every comment, docstring and string with a blank in Python source."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def dialect(text: str) -> list[str]:
    """The words of the dialect in a text; what stands in backquotes does not count."""
    plain = re.sub(r"`[^`\n]*`", "", text)
    return [word for word, pattern in DIALECT.items() if re.search(rf"\b(?:{pattern})\b", plain, re.IGNORECASE)]


def found_in(name: str) -> list[str]:
    """Every use of the dialect in one file, as "FILE:LINE: WORD"."""
    text = (ROOT / name).read_text("utf-8")
    pieces = sentences(text) if name.endswith(".py") else enumerate(text.splitlines(), 1)
    return [f"{name}:{line}: {word}" for line, piece in pieces for word in dialect(piece)]


PRODUCT = ("emulator/*.py", "emulator/*.sh", "web/*.py", "web/*.js", "web/*.html", "scripts/*")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "emulator/docs/*.md")


@pytest.mark.parametrize("patterns", [PRODUCT, DOCUMENTS], ids=["product", "documents"])
def test_no_sentence_uses_the_dialect(patterns: tuple[str, ...]) -> None:
    assert [use for name in tracked(*patterns) for use in found_in(name)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the daemon mends what has drifted", ["mend"]),
        ("Lanes given back, and taken back.", ["give back", "take back"]),
        ("the amendment and the recommended depth", []),
        ("`longhaul_lanes_borrowed` is deprecated", []),
    ],
)
def test_the_dialect_is_recognised(text: str, words: list[str]) -> None:
    assert dialect(text) == words


def test_a_string_a_comment_and_a_docstring_are_sentences_and_a_key_is_none() -> None:
    source = '"""Mends."""\nfield = "mended"  # it mends\nraise_it = f"{field} cannot be mended"\n'
    lines = [line for line, text in sentences(source) if dialect(text)]
    assert lines == [2, 3]
