"""Verdicts on trial: measures cells with a planted limiter, follows the advice, and counts what was found."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

from msgspec.structs import replace

from emulator import units
from emulator.analysis import verdict
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.grid import of_window
from emulator.model.impairment import Buffer
from emulator.model.lane_patch import LanePatch
from emulator.units import MIB_BYTES
from support.lab_cells import Spoil, measure, measure_any
from support.planted_cells import BUSY_LOOPS, PLANTS, Planted

NOT_MEASURED = "not measured"
WITHIN = 0.1
"""How far the lifted cell may be from the prediction."""
_ADVICE = re.compile(r"(?P<setting>.+?) from (?P<now>.+?) to (?P<wanted>.+?): (?P<mib_per_s>[\d.]+) MiB/s")


@dataclass(frozen=True)
class Followed:
    """What the advice promised and what the cell carried with it, in payload bytes/s, and the verdict then."""

    promised_bytes_per_s: float
    steady_bytes_per_s: float
    limiter: str

    @property
    def ratio(self) -> float:
        """Measured over promised."""
        return self.steady_bytes_per_s / self.promised_bytes_per_s

    @property
    def held(self) -> bool:
        """Whether the promise was kept."""
        return abs(self.ratio - 1) <= WITHIN


@dataclass(frozen=True)
class Trial:
    """One cell: what was planted, what was found, and the advice, which was followed where it names a figure.

    `failure` says why nothing was measured. `line_share` is the steady part's share of the line; 0 where the workload
    is no streams.
    """

    number: int
    cell: str
    planted: str
    found: str = ""
    evidence: str = ""
    advice: str = ""
    line_share: float = 0.0
    followed: Followed | None = None
    failure: str = ""

    @property
    def right(self) -> bool:
        """Whether the verdict is what was planted."""
        return self.found == self.planted


def named(kind: str, limiter: str) -> str:
    """The verdict as one of PLANTS: of a congestion window and of the emulator the limiter says which."""
    return limiter if kind in (verdict.CONGESTION_WINDOW, verdict.EMULATOR) else kind


def cell_name(planted: Planted) -> str:
    """What of the cell a reader needs to know, and what changes when it is drawn otherwise."""
    spec = planted.spec
    buffer = spec.path.buffer_bytes
    parts = (spec.id, spec.direction, f"{spec.duration_s}s", f"buffer{buffer}" if buffer else "")
    return "-".join(part for part in parts if part)


def tried(planted: Planted, folder: Path) -> Trial:
    """Measure the cell, and measure it again as its advice says. Raises LonghaulError."""
    spec = planted.spec
    with busy_loops(BUSY_LOOPS if planted.limiter == verdict.CPU else 0):
        result = measure_any(spec, folder, planted.spoil)
    judgement = result.judgement
    share = result.steady_bytes_per_s / spec.path.line_bytes_per_s if isinstance(result, CellResult) else 0.0
    found = named(judgement.kind, judgement.limiter)
    followed = _follow(planted, judgement.advice, folder)
    seen = (found, judgement.evidence, judgement.advice, share, followed)
    return Trial(planted.number, cell_name(planted), planted.limiter, *seen)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many programs that compute without end, for the time of a block."""
    with ExitStack() as stack:
        for _ in range(count):
            loop = stack.enter_context(subprocess.Popen(["sh", "-c", "while :; do :; done"]))
            stack.callback(loop.kill)
        yield


def _follow(planted: Planted, advice: str, folder: Path) -> Followed | None:
    """The cell with the advised setting; None where the advice names no setting with a figure."""
    told = _ADVICE.match(advice)
    if not told:
        return None
    spec, spoil = as_advised(planted, told["setting"], told["wanted"])
    after = measure(spec, folder, spoil)
    promised = float(told["mib_per_s"]) * MIB_BYTES
    return Followed(promised, after.steady_bytes_per_s, named(after.judgement.kind, after.judgement.limiter))


def as_advised(planted: Planted, setting: str, wanted: str) -> tuple[CellSpec, Spoil | None]:
    """The cell with one setting as advised. Raises ValueError for a setting that is not known here."""
    spec, profile = planted.spec, planted.spec.profile
    amount = float(wanted.split()[0]) if wanted[0].isdigit() else 0.0
    match setting:
        case "tcp_rmem max" | "tcp_wmem max":
            key = setting.split()[0]
            buffers = (*getattr(profile, key)[:2], round(amount * MIB_BYTES))
            return replace(spec, profile=replace(profile, **{key: buffers})), planted.spoil
        case "window":
            return replace(spec, profile=of_window(units.parse_size_bytes(wanted))), planted.spoil
        case "congestion control":
            return replace(spec, congestion_control=wanted), planted.spoil
        case "the lane's buffer":
            larger = LanePatch.both({"buffer": Buffer(bytes=units.parse_size_bytes(wanted))}).apply(spec.lane)
            return replace(spec, topology=spec.topology.with_lane(larger)), planted.spoil
        case "streams":
            return replace(spec, streams=round(amount)), planted.spoil
        case "duration":
            return replace(spec, duration_s=round(amount)), planted.spoil
        case "tcp_mem":  # what spoilt the cell was too little of it
            return replace(spec, profile=replace(profile, tcp_mem=(round(amount),) * 3)), None
    raise ValueError(f"{setting!r} is no setting that a trial can follow")


@dataclass(frozen=True)
class Outcome:
    """All trials of a draw, and what they add up to."""

    trials: tuple[Trial, ...]

    @property
    def right(self) -> int:
        """How many verdicts are what was planted."""
        return sum(trial.right for trial in self.trials)

    @property
    def followed(self) -> list[Followed]:
        """The advice that was followed after a right verdict."""
        return [trial.followed for trial in self.trials if trial.followed and trial.right]

    @property
    def matrix(self) -> dict[str, dict[str, int]]:
        """How often which limiter was found, by what was planted."""
        found = {planted: Counter[str]() for planted in PLANTS}
        for trial in self.trials:
            found[trial.planted][trial.found or NOT_MEASURED] += 1
        return {planted: dict(counts) for planted, counts in found.items() if counts}

    def lines(self) -> list[str]:
        """The matrix, one row for each limiter that was planted; then every miss and every promise that was broken."""
        kept = sum(one.held for one in self.followed)
        return [
            *self._table(),
            f"{self.right} of {len(self.trials)} verdicts are right: {self.right / max(1, len(self.trials)):.1%}",
            f"{kept} of {len(self.followed)} predictions hold within {WITHIN:.0%} when the advice is followed",
            *(f"miss: {_told(trial)}" for trial in self.trials if not trial.right),
            *(f"prediction: {_told(trial)}" for trial in self.trials if _broken(trial)),
        ]

    def _table(self) -> list[str]:
        columns = list(dict.fromkeys([*self.matrix, *(found for row in self.matrix.values() for found in row)]))
        width = max(map(len, columns), default=0)
        head = " ".join(f"{letter:>3}" for letter in ascii_lowercase[: len(columns)])
        rows = [f"{'planted':{width}}   | {head} | advice holds"]
        for letter, planted in zip(ascii_lowercase, columns, strict=False):
            counts = " ".join(f"{self.matrix.get(planted, {}).get(found, 0) or '.':>3}" for found in columns)
            told = [one.followed for one in self.trials if one.planted == planted and one.right and one.followed]
            held = f"{sum(one.held for one in told)} of {len(told)}" if told else "-"
            rows.append(f"{planted:{width}} {letter} | {counts} | {held}")
        return rows


def _broken(trial: Trial) -> bool:
    return trial.right and trial.followed is not None and not trial.followed.held


def _told(trial: Trial) -> str:
    """One trial in a line."""
    words = [f"{trial.number} {trial.cell}: planted {trial.planted}, found {trial.found or NOT_MEASURED}"]
    words += [text for text in (trial.evidence, trial.failure, trial.advice) if text]
    if trial.followed:
        words.append(f"followed: {trial.followed.ratio:.2f} of that, then {trial.followed.limiter}")
    return "; ".join(words)
