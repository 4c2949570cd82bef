"""The regression gate: a sweep's figures against those of a baseline, and a verdict for every cell. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from msgspec import Struct

from emulator import units
from emulator.analysis import statistics

DIGITS = 6
"""Of a figure in a baseline: enough for a difference of 0.01 %, and few enough for a readable diff."""
TOLERANCE_PERCENT = 1.0
"""The least change for the worse that fails, where the user names none."""
REGRESSION, NOISE, FASTER, SAME = "REGRESSION", "within the noise", "faster", "same"
ABSENT, NEW, INVALID, FAILED, VALID = "ABSENT", "new", "INVALID", "FAILED", "valid"
FAILING = (REGRESSION, ABSENT, INVALID, FAILED)
"""The words that fail the gate, and are written in capitals."""


def _number(text: str) -> float:
    """A plain decimal number."""
    if not re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{1,15})?", text):
        raise ValueError(f"{text!r} is not a number: use 93.2")
    return float(text)


def _duration_text(ns: float) -> str:
    return units.compact(units.format_duration(round(ns)))


def _plain(value: float) -> str:
    """The shortest decimal number that means this value, without an exponent."""
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


class FigureKind(Struct, frozen=True):
    """A figure of a cell: its key in a baseline, whether more of it is better, and how its texts are read and written.

    `write` is the text of a baseline, which `read` reads; `show` is the text for people. `read` raises ValueError.
    """

    key: str
    more_is_better: bool
    read: Callable[[str], float]
    write: Callable[[float], str]
    show: Callable[[float], str]


KINDS = (
    FigureKind(
        "throughput", True, units.parse_rate_bps,
        lambda bps: units.compact(units.format_rate(round(bps))), lambda bps: units.throughput_text(bps / 8),
    ),
    FigureKind(
        "completion", False, units.parse_duration_ns, _duration_text,
        lambda ns: units.format_duration(round(ns)),
    ),
    FigureKind("requests_per_s", True, _number, _plain, lambda per_s: f"{_plain(per_s)}/s"),
    FigureKind("p50", False, units.parse_duration_ns, _duration_text, lambda ns: units.format_duration(round(ns))),
    FigureKind("p99", False, units.parse_duration_ns, _duration_text, lambda ns: units.format_duration(round(ns))),
)  # fmt: skip
"""Throughput in bit/s, completion and quantiles in ns. The first figure of a cell is the one that repeats measure."""
BY_KEY = {kind.key: kind for kind in KINDS}


class CellFigure(Struct, frozen=True):
    """A figure of a cell in its kind's unit, rounded to `DIGITS` digits, as a baseline holds it.

    `percent` is the 99 % half-width as a percentage of the value, to four decimals; None: it was not measured.
    """

    key: str
    value: float
    percent: float | None = None

    @classmethod
    def rounded(cls, key: str, value: float, percent: float | None = None) -> CellFigure:
        """A measured figure. Times and rates are whole numbers (ns, bit/s)."""
        digits = float(f"{value:.{DIGITS - 1}e}")
        kept = digits if key == "requests_per_s" else float(round(digits))
        known = None if percent is None or not math.isfinite(percent) else round(percent, 4)
        return cls(key, kept, known)

    @property
    def kind(self) -> FigureKind:
        """How it is read and written."""
        return BY_KEY[self.key]


Figures = Mapping[str, CellFigure]
"""The figures of a cell by key, in the order of `KINDS`."""


class Conditions(Struct, frozen=True):
    """What a baseline's figures depend on besides the cells: texts for people, which only inform.

    `place` is `lab`, `lab with computing counted` or `hosts`; `settings` is a digest of everything the cells ask for.
    """

    place: str
    kernel: str
    longhaul: str
    settings: str


LAB, COUNTED, HOSTS = "lab", "lab with computing counted", "hosts"


class Baseline(Struct, frozen=True):
    """The figures of every cell by the cell's id, and what they depend on."""

    conditions: Conditions
    cells: Mapping[str, Figures]

    @property
    def exact(self) -> bool:
        """Whether a single measurement is certain: the lab repeats it to the byte."""
        return self.conditions.place == LAB


class MeasuredCell(Struct, frozen=True):
    """A cell of the sweep: its figures, and why they are not valid. `failure`: why it has none.

    `seconds` is what the measurement takes by the clock of its hosts.
    """

    id: str
    figures: Figures
    invalid: tuple[str, ...] = ()
    failure: str = ""
    seconds: float = 0.0


class FigureChange(Struct, frozen=True):
    """One figure of a cell then and now, both in its kind's unit; `certain`: single measurements are certain."""

    before: CellFigure
    after: CellFigure
    tolerance_percent: float
    certain: tuple[bool, bool] = (True, True)

    @property
    def percent(self) -> float:
        """By how much the figure changed, rounded to 0.01 % as it is shown; from 0 to anything else is 100 %."""
        if not self.before.value:
            return 100.0 if self.after.value else 0.0
        return round(float((Fraction(self.after.value) / Fraction(self.before.value) - 1) * 100), 2)

    @property
    def differs(self) -> bool:
        """Whether the difference exceeds the uncertainty of both."""
        one, other = (
            (figure.value, self._half(figure, certain=certain))
            for figure, certain in zip((self.before, self.after), self.certain, strict=True)
        )
        return statistics.differ(one, other)

    @staticmethod
    def _half(figure: CellFigure, *, certain: bool) -> float:
        if figure.percent is None:
            return 0.0 if certain else math.inf
        return figure.value * figure.percent / 100

    @property
    def word(self) -> str:
        """same, where it changed by less than the tolerance; else REGRESSION, within the noise, or faster."""
        if not self.percent or abs(self.percent) < self.tolerance_percent:
            return SAME
        if not self.differs:
            return NOISE
        return FASTER if (self.percent > 0) is self.before.kind.more_is_better else REGRESSION


class CellVerdict(Struct, frozen=True):
    """A cell with its word, what changed, its figures now, and why it is not compared."""

    id: str
    word: str
    changes: tuple[FigureChange, ...] = ()
    figures: tuple[CellFigure, ...] = ()
    why: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether it lets the gate pass."""
        return self.word not in FAILING


class Gate(Struct, frozen=True):
    """The verdicts on all cells, the baseline's first. `compared`: there was a baseline. `notes` inform only."""

    cells: tuple[CellVerdict, ...]
    compared: bool
    tolerance_percent: float = TOLERANCE_PERCENT
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every cell passed."""
        return all(cell.passed for cell in self.cells)

    def of(self, word: str) -> list[str]:
        """The ids of the cells with this word."""
        return [cell.id for cell in self.cells if cell.word == word]


def without_baseline(cells: Sequence[MeasuredCell]) -> Gate:
    """A verdict on validity alone."""
    return Gate(tuple(_alone(cell, VALID) for cell in cells), compared=False)


def compare(
    baseline: Baseline, cells: Sequence[MeasuredCell], now: Conditions, tolerance_percent: float = TOLERANCE_PERCENT
) -> Gate:
    """Every cell of the sweep against the baseline, in the sweep's order, then the cells that the sweep lacks."""
    certain = (baseline.exact, now.place == LAB)
    verdicts = [
        _against(baseline.cells[cell.id], cell, tolerance_percent, certain)
        if cell.id in baseline.cells
        else _alone(cell, NEW)
        for cell in cells
    ]
    asked = {cell.id for cell in cells}
    why = ("it is in the baseline, but the sweep has no such cell",)
    verdicts += [CellVerdict(id, ABSENT, why=why) for id in baseline.cells if id not in asked]
    return Gate(tuple(verdicts), True, tolerance_percent, tuple(_changed(baseline.conditions, now)))


def _alone(cell: MeasuredCell, sound: str) -> CellVerdict:
    word, why = sound, cell.invalid
    if cell.failure or not cell.figures:
        word, why = FAILED, (cell.failure or "it was not measured",)
    elif cell.invalid:
        word = INVALID
    return CellVerdict(cell.id, word, (), tuple(cell.figures.values()), why, cell.seconds)


def _against(before: Figures, cell: MeasuredCell, tolerance_percent: float, certain: tuple[bool, bool]) -> CellVerdict:
    alone = _alone(cell, VALID)
    if alone.word == FAILED:
        return alone
    if lacking := [key for key in before if key not in cell.figures]:
        why = (f"the baseline has its {', '.join(lacking)}, the sweep its {', '.join(cell.figures)}",)
        return CellVerdict(cell.id, ABSENT, (), alone.figures, why, cell.seconds)
    changes = tuple(FigureChange(one, cell.figures[key], tolerance_percent, certain) for key, one in before.items())
    words = [change.word for change in changes]
    word = next(one for one in (REGRESSION, NOISE, FASTER, SAME) if one in words)
    if alone.word == INVALID:
        word = INVALID
    return CellVerdict(cell.id, word, changes, alone.figures, cell.invalid, cell.seconds)


def _changed(before: Conditions, now: Conditions) -> list[str]:
    """What is not as when the baseline was written."""
    named = {"place": "measured in", "kernel": "kernel", "longhaul": "Longhaul"}
    pairs = [(name, getattr(before, key), getattr(now, key)) for key, name in named.items()]
    said = [f"{name}: {one} in the baseline, {other} now" for name, one, other in pairs if other and one != other]
    if before.settings != now.settings:
        said.append(
            "the cells ask for something else than the baseline's: topology, profiles, workload, duration or seed"
        )
    return said
