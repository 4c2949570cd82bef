"""Baselines as files: what is written is read back equal, and everything wrong in one is told at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support import made_programs, made_requests
from support.folders import GOLDEN
from support.golden import golden
from support.made_results import MIB, cell_result

from emulator.analysis.regression_gate import COUNTED, HOSTS, LAB, Baseline, CellFigure, Conditions
from emulator.errors import InputError
from emulator.experiment import baseline_file
from emulator.experiment.baseline_file import figures
from emulator.experiment.results import Result
from emulator.model.request_load import RequestLoad

MISTAKES = sorted((GOLDEN / "baselines").glob("*.yaml"))
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=30)
TIMES_NS = st.floats(0, 1e15)
PERCENT = st.none() | st.floats(0, 1000)


def in_file(text: str) -> str:
    """A word as the file can hold it: YAML has no words for these."""
    return text.encode("utf-8", "ignore").decode().strip() or "x"


@st.composite
def cells(draw: st.DrawFn) -> dict[str, CellFigure]:
    if draw(st.booleans()):
        rate = CellFigure.rounded("throughput", draw(st.floats(0, 1e13)), draw(PERCENT))
        return {"throughput": rate}
    if draw(st.booleans()):
        return {"completion": CellFigure.rounded("completion", draw(TIMES_NS), draw(PERCENT))}
    found = [CellFigure.rounded("requests_per_s", draw(st.floats(0, 1e8, allow_subnormal=False).filter(
        lambda per_s: not 0 < per_s < 1e-6)), draw(PERCENT)),
             CellFigure.rounded("p50", draw(TIMES_NS)), CellFigure.rounded("p99", draw(TIMES_NS))]  # fmt: skip
    return {figure.key: figure for figure in found}


CONDITIONS = st.builds(Conditions, st.sampled_from([LAB, COUNTED, HOSTS]), *[st.from_regex(r"[ -~]{0,20}", fullmatch=True).map(str.strip)] * 3)  # fmt: skip  # noqa: E501


@given(CONDITIONS, st.dictionaries(WORDS.map(in_file), cells(), min_size=1, max_size=5))
def test_what_is_written_is_read_back(conditions: Conditions, cells: dict[str, dict[str, CellFigure]]) -> None:
    one = Baseline(conditions, cells)
    text = baseline_file.text(one)
    again = baseline_file.loads(text, "b.yaml")
    assert again == one
    assert list(again.cells) == list(one.cells)
    assert baseline_file.text(again) == text
    assert text.count("\n") == 5 + len(cells)


def requests() -> Result:
    return made_requests.result(RequestLoad())


def program(*completion_ms: float) -> Result:
    runs = made_programs.runs(*(made_programs.run(ms, made_programs.connection()) for ms in completion_ms))
    return made_programs.result(made_programs.row("p", 100, runs), "fetch")


def test_figures_of_every_kind() -> None:
    streams = replace(cell_result(steady_bytes_per_s=100 * MIB), repeats=(100.0 * MIB, 101.0 * MIB, 99.0 * MIB))
    found = {
        "streams": figures(streams),
        "streams-once": figures(cell_result(steady_bytes_per_s=100 * MIB)),
        "program": figures(program(1000, 1010, 990)),
        "program-once": figures(program(1000)),
        "requests": figures(requests()),
    }
    text = baseline_file.text(Baseline(Conditions(LAB, "6.12.117", "0.2.0", "be26c208846a"), found))
    assert text == golden(GOLDEN / "baseline_of_every_kind.txt", text)


@pytest.mark.parametrize("file", MISTAKES, ids=lambda path: path.stem)
def test_every_mistake_is_told_with_its_line(file: Path) -> None:
    with pytest.raises(InputError) as refused:
        baseline_file.loads(file.read_text(), file.name)
    told = f"{refused.value}\n"
    assert told == golden(file.with_suffix(".txt"), told)


def test_a_file_that_is_not_there_or_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist; write it .*: longhaul sweep ... --write-baseline .*b.yaml"):
        baseline_file.load(tmp_path / "b.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff")
    with pytest.raises(InputError, match="is not a text file in UTF-8"):
        baseline_file.load(tmp_path / "b.yaml")
    (tmp_path / "b.yaml").write_bytes(b"#" * (4 * MIB + 1))
    with pytest.raises(InputError, match="it has more than 4 MiB, the most that a baseline may have"):
        baseline_file.load(tmp_path / "b.yaml")


@pytest.mark.parametrize(("text", "percent"), [("1%", 1), ("0.5 %", 0.5), ("100%", 100)])
def test_tolerances(text: str, percent: float) -> None:
    assert baseline_file.tolerance_percent(text) == percent


@pytest.mark.parametrize("text", ["1", "0%", "101%", "-1%", "one", ""])
def test_what_is_no_tolerance(text: str) -> None:
    with pytest.raises(ValueError, match="is not a tolerance: use a percentage above 0% and up to 100%, such as 1%"):
        baseline_file.tolerance_percent(text)
