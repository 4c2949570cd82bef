"""Tables: lines below a row, and columns that do not fit."""

from __future__ import annotations

import pytest

from emulator.cli.output import emit_table

HEADER = ("RTT", "steady", "limited by")
ROWS = (("32 ms", "85.7", "send buffer, 2.75 MiB in flight"), ("346 ms", "11.5", "-"))


def printed(capsys: pytest.CaptureFixture[str], most: int | None) -> list[str]:
    emit_table(HEADER, ROWS, left=("limited by",), most=most, below={0: ["    note"]})
    return capsys.readouterr().out.splitlines()


def test_a_table_that_fits_has_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    wide = printed(capsys, 47)
    assert wide == printed(capsys, None)
    assert [line.split("  ")[-1] for line in wide] == ["limited by", ROWS[0][2], "note", "-"]


def test_columns_that_do_not_fit_are_below_their_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, 46) == [
        "   RTT  steady",
        " 32 ms    85.7",
        "    limited by send buffer, 2.75 MiB in flight",
        "    note",
        "346 ms    11.5",
    ]


@pytest.mark.parametrize("most", [12, 20, 30])
def test_a_narrow_table_loses_nothing_and_keeps_its_width(capsys: pytest.CaptureFixture[str], most: int) -> None:
    lines = printed(capsys, most)
    assert max(map(len, lines)) <= most
    assert "limited by send buffer, 2.75 MiB in flight" in " ".join(" ".join(lines).split())
