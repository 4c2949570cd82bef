"""The pages of the documentation, as the package carries them."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from msgspec import Struct

import emulator
from emulator.errors import InputError

FOLDER = Path(emulator.__file__).with_name("docs")
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
GENERATED_OPTIONS = re.compile(r"<!-- generated: options .*?<!-- end -->\n?", re.DOTALL)


class Page(Struct, frozen=True):
    """One page of the documentation: its topic (the file's name) and its Markdown as the file holds it."""

    topic: str
    source: str

    @property
    def text(self) -> str:
        """The Markdown without its comments, which are for tests."""
        return COMMENT.sub("", self.source)

    @property
    def title(self) -> str:
        """The page's heading."""
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """The first sentence below the heading, on one line."""
        paragraph = self.text.split("\n\n", 2)[1]
        return re.split(r"(?<=\.)\s", " ".join(paragraph.split()), maxsplit=1)[0]

    @property
    def sections(self) -> list[str]:
        """The headings `## HEADING`, in order."""
        return re.findall(r"^## (.*)$", self.text, re.MULTILINE)

    def section(self, heading: str) -> str:
        """The text below the heading `## HEADING`, up to the next of its level; empty when there is none."""
        found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", self.text, re.MULTILINE | re.DOTALL)
        return found[1].strip() + "\n" if found else ""

    def without_options(self) -> Page:
        """The page without the tables of options that are made from the commands' own help."""
        return Page(self.topic, GENERATED_OPTIONS.sub("", self.source))


def pages() -> dict[str, Page]:
    """Every page by its topic, in the order of the index."""
    index = (FOLDER / "index.md").read_text("utf-8")
    topics = re.findall(r"\]\((\w+)\.md\)", index)
    return {topic: Page(topic, (FOLDER / f"{topic}.md").read_text("utf-8")) for topic in topics}


def topics() -> list[str]:
    """The topics of all pages, and the commands with a section on the page of commands."""
    known = pages()
    return [*known, *(name for name in known["commands"].sections if name not in known)]


def page(topic: str) -> Page:
    """The page of a topic, or a command's section of the page of commands. Raises InputError with similar names."""
    known = pages()
    if topic in known:
        return known[topic]
    if section := known["commands"].section(topic):
        return Page(topic, f"# longhaul {topic}\n\n{section}")
    close = difflib.get_close_matches(topic, topics())
    hint = f"did you mean {' or '.join(close)}?" if close else "'longhaul docs' lists all topics"
    raise InputError.single(f"there is no page {topic!r}; {hint}", "TOPIC")
