"""What a build shows where stderr is no terminal."""

from __future__ import annotations

import pytest
from support.hand_clock import HandClock

from emulator.cli.build_progress import _Lines, build_progress, expected_s
from emulator.lab.build import EXPECTED_S


def test_a_step_prints_a_line_when_it_begins_and_ends_and_every_half_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = HandClock()
    lines = _Lines(lambda: clock.now_ns / 1e9)
    for passed_s, step, done in [
        (0, "unpack the kernel's source", 0), (15, "unpack the kernel's source", 1), (0, "compile the kernel", 0),
        (10, "compile the kernel", 20), (20, "compile the kernel", 60), (10, "compile the kernel", 80),
        (65, "compile the kernel", 200),
    ]:  # fmt: skip
        clock.pass_s(passed_s)
        lines.show(step, done, 1 if step.startswith("unpack") else 200)
    assert capsys.readouterr().err.splitlines() == [
        "[0:00] unpack the kernel's source (takes about 0:15)",
        "[0:15] unpack the kernel's source: done in 0:15",
        "[0:15] compile the kernel (takes about 2:50)",
        "[0:45] compile the kernel: 30 %, 0:30 of about 1:40",
        "[2:00] compile the kernel: done in 1:45",
    ]


def test_where_nothing_is_built_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with build_progress():
        pass
    assert capsys.readouterr() == ("", "")


def test_a_step_is_expected_to_take_what_it_took_elsewhere_until_its_own_pace_is_known() -> None:
    assert expected_s("compile the kernel", 100, 10, 1000) == EXPECTED_S["compile the kernel"]
    assert expected_s("compile the kernel", 100, 500, 1000) == 200
