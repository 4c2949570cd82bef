"""Markdown of tables and lists: what a renderer of GitHub's dialect shows is the text that was given."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from emulator.report import github_markdown
from emulator.report.tables import Table

RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = "a|b `c` <img src=x> &amp; **d** _e_ ~~f~~ [g](h) \\| \\ $i$ <!-- \r\n\n# j"


def shown(element: str, rendered: str) -> list[str]:
    """What stands in every such element of a rendered page; a tag inside one is no text."""
    return [html.unescape(text) for text in re.findall(rf"<{element}(?: [^>]*)?>([^<]*)</{element}>", rendered)]


def one_line(text: str) -> str:
    """What people see of a text that a program may have printed."""
    return re.sub("[\0-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", " ".join(text.split()))


@given(st.lists(st.text(), min_size=2, max_size=2))
@example([HOSTILE, "1. x"])
@example(["\\", "|"])
@example(["`", "`"])
@example(["__a__", "a_b_ _c"])
def test_a_cell_shows_its_text_and_nothing_else(cells: list[str]) -> None:
    table = Table("t", ("a", "b"), ((cells[0], cells[1]), ("end", "")), ("a",))
    rendered = RENDERER.render(github_markdown.table(table))
    assert shown("td", rendered) == [*map(one_line, cells), "end", ""]
    assert rendered.count("<tr>") == 3


@given(st.lists(st.text("#+-=0123456789.)>*_`~|[]()<&\\ \nab!:$", min_size=1).filter(str.strip), min_size=1))
@example([HOSTILE, "- x", "# y", "1. z", "===", "    code"])
def test_an_item_of_a_list_shows_its_text_and_nothing_else(lines: list[str]) -> None:
    rendered = RENDERER.render(github_markdown.items(lines))
    assert shown("li", rendered) == [one_line(line) for line in lines]


@given(st.text("#+-=0123456789.)>*_`~|[]()<&\\ \nab!:$", min_size=1).filter(str.strip))
@example("===")
@example("1) a")
@example("[a]: b")
def test_a_sentence_shows_its_text_and_nothing_else(line: str) -> None:
    rendered = RENDERER.render(f"before\n\n{github_markdown.sentence(line)}\n\nafter\n")
    assert shown("p", rendered) == ["before", one_line(line), "after"]


@pytest.mark.parametrize(
    ("text", "seen"), [("a\x1b[31mb", "a\ufffd\\[31mb"), ("cost $5 or $6", "cost &#36;5 or &#36;6")]
)
def test_no_control_character_and_no_formula(text: str, seen: str) -> None:
    assert github_markdown.inline(text) == seen
