"""A congestion control in one C file: its name is found, and what it lacks is told before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.folders import ROOT

from emulator.lab import congestion_source
from emulator.lab.congestion_source import OF_LINUX, parse

EXAMPLE = ROOT / "emulator/docs/tcp_gentle.c"
GOOD = """
// SPDX-License-Identifier: GPL-2.0
/* .name = "comment" */
static struct tcp_congestion_ops mine __read_mostly = {
	.ssthresh	= mine_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= mine_avoid,
	.owner		= THIS_MODULE,
	.name		= "mine", // .name = "other"
};
static int __init mine_register(void)
{
	return tcp_register_congestion_control(&mine);
}
module_init(mine_register);
"""


def test_the_name_of_a_congestion_control_and_its_place() -> None:
    found = parse(GOOD, "mine.c", OF_LINUX)
    assert (found.name, found.path) == ("mine", "net/ipv4/lab_cc_mine.c")
    assert congestion_source.makefile("obj-y += a.o", [found]) == "obj-y += a.o\nobj-y += lab_cc_mine.o\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"mine"', '"cubic"', "the kernel has a congestion control 'cubic' already"),
        ('"mine"', '"Mine"', "is no name of a congestion control"),
        ('"mine"', '"a_name_that_is_too_long"', "is no name of a congestion control"),
        ('.name		= "mine"', ".key = 1", "mine has no name: add .name"),
        (".ssthresh	= mine_ssthresh,", "", "mine lacks .ssthresh, without which"),
        (".cong_avoid	= mine_avoid,", "", "mine lacks .cong_avoid (or .cong_control)"),
        (
            ".cong_avoid	= mine_avoid,",
            "// .cong_avoid	= mine_avoid,",
            "mine lacks .cong_avoid (or .cong_control)",
        ),
        ("(&mine)", "(&other)", "call tcp_register_congestion_control(&mine)"),
        ("struct tcp_congestion_ops mine", "struct other_ops mine", "and has none"),
    ],
)
def test_what_a_file_lacks_is_told(old: str, new: str, why: str) -> None:
    assert old in GOOD
    with pytest.raises(ValueError) as error:
        parse(GOOD.replace(old, new), "mine.c", OF_LINUX)
    assert why in str(error.value)


def test_two_in_one_file_are_refused() -> None:
    with pytest.raises(ValueError, match="and has 2 of them"):
        parse(GOOD + GOOD.replace("mine", "yours"), "mine.c")


COMMENTS = st.sampled_from(["/* { */", "// }\n", '/* " */', '/* .name = "x" */', "\n", " "])
STRINGS = st.sampled_from(['"/* kept */"', '"// kept"', '"\\""', "'\"'"])


@given(st.lists(st.one_of(COMMENTS, STRINGS.map(lambda text: f"{text};"))))
def test_comments_go_and_what_is_quoted_stays(parts: list[str]) -> None:
    code = congestion_source.without_comments("".join(parts))
    quoted = [part for part in parts if part.endswith(";")]
    assert "".join(code.split()) == "".join("".join(quoted).split())


@given(COMMENTS, st.integers(0, len(GOOD.splitlines()) - 1))
def test_a_comment_between_lines_changes_nothing(comment: str, at: int) -> None:
    lines = GOOD.splitlines()
    source = "\n".join([*lines[:at], comment, *lines[at:]])
    assert parse(source, "mine.c", OF_LINUX).name == "mine"


def test_the_example_of_the_documents_is_one() -> None:
    source = Path(EXAMPLE).read_text()
    assert parse(source, EXAMPLE.name, OF_LINUX).name == "gentle"
    assert len(source.splitlines()) <= 70
