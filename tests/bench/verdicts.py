"""Verdicts on trial: cells with one planted limiter, most of them drawn, and what Longhaul says limits them. By hand.

Prints the confusion matrix, every miss, and every prediction of an advice that did not hold when the advice was
followed; exits with 1 below 98 % of right verdicts. Measures in labs, twenty cells a boot, one lab at a time. Takes a
quarter of an hour; what is measured stays in a file, and the next run goes on from there.

Example:
  nice .venv/bin/python tests/bench/verdicts.py
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from helped import parser
from msgspec import structs

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support import planted_cells, verdict_trial  # noqa: E402
from support.planted_cells import Planted  # noqa: E402
from support.verdict_trial import Followed, Outcome, Trial  # noqa: E402

from emulator.errors import LabError, LonghaulError  # noqa: E402
from emulator.lab import boot  # noqa: E402
from emulator.lab.boot_options import BootOptions  # noqa: E402

CELLS, SEED, EACH_BOOT, KEPT = 200, 1, 20, "runs/verdicts.jsonl"
ENOUGH = 0.98
BOOT_SEEDS = (1, 2, 3)
"""What a lab leaves unmeasured another one measures, with another seed."""


def kept(file: Path, wanted: Sequence[Planted]) -> dict[int, Trial]:
    """The trials in the file that are still the ones wanted, by number; a line that was cut off is none."""
    found: dict[int, Trial] = {}
    names = {planted.number: verdict_trial.cell_name(planted) for planted in wanted}
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            values = json.loads(line)
        except ValueError:
            continue
        followed = values.pop("followed")
        trial = Trial(**values, followed=Followed(**followed) if followed else None)
        if names.get(trial.number) == trial.cell:
            found[trial.number] = trial
    return found


def measure(wanted: Sequence[Planted], seed: int, file: Path) -> None:
    """Measure what the file lacks, a few cells a boot."""
    for boot_seed in BOOT_SEEDS:
        there = kept(file, wanted)
        missing = [planted for planted in wanted if planted.number not in there]
        for counted in (False, True):
            same_clock = [planted.number for planted in missing if planted.spec.counted == counted]
            for first in range(0, len(same_clock), EACH_BOOT):
                numbers = same_clock[first : first + EACH_BOOT]
                _boot(numbers, seed, BootOptions(ROOT, counted=counted, seed=boot_seed), file)


def _boot(numbers: Sequence[int], seed: int, options: BootOptions, file: Path) -> None:
    """One lab, which measures these cells; each whole line that it prints is a trial."""
    argv = ["python3", "tests/bench/verdicts.py", "--seed", str(seed), "--inside", *map(str, numbers)]
    rest = bytearray()

    def keep(data: bytes) -> None:
        rest.extend(data)
        while b"\n" in rest:
            line, _, after = bytes(rest).partition(b"\n")
            rest[:] = after
            with file.open("ab") as out:
                out.write(line + b"\n")

    try:
        boot.run(argv, BootOptions(**{**structs.asdict(options), "stdout": keep}))
    except LabError as error:
        print(f"cells {numbers}: {error}", file=sys.stderr)


def inside(numbers: Sequence[int], seed: int) -> None:
    """In the lab: measure these cells, and print a line of JSON for each."""
    for number in numbers:
        planted = planted_cells.draw(seed, number)
        try:
            with tempfile.TemporaryDirectory() as folder:
                trial = verdict_trial.tried(planted, Path(folder))
        except LonghaulError as error:
            name = verdict_trial.cell_name(planted)
            trial = Trial(number, name, planted.limiter, failure=str(error))
        print(json.dumps(asdict(trial)), flush=True)


def outcome(wanted: Sequence[Planted], found: dict[int, Trial]) -> Outcome:
    """All that was wanted, in its order."""
    return Outcome(
        tuple(
            found.get(one.number) or Trial(one.number, verdict_trial.cell_name(one), one.limiter, failure="no result")
            for one in wanted
        )
    )


def main(asked: argparse.Namespace) -> int:
    """Measure and print; the exit code."""
    wanted, file = [*planted_cells.drawn(asked.seed, asked.cells), *planted_cells.far()], Path(asked.kept)
    file.parent.mkdir(parents=True, exist_ok=True)
    measure(wanted, asked.seed, file)
    done = outcome(wanted, kept(file, wanted))
    if asked.json:
        trials = [asdict(trial) for trial in done.trials]
        print(json.dumps({"right": done.right, "matrix": done.matrix, "trials": trials}, indent=1))
    else:
        print("\n".join(done.lines()))
    return int(done.right < ENOUGH * len(done.trials))


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("--cells", type=int, default=CELLS, help=f"how many; {CELLS} unless said")
    said.add_argument("--seed", type=int, default=SEED, help=f"of the draw; {SEED} unless said")
    said.add_argument("--kept", default=KEPT, metavar="FILE", help=f"what is measured; {KEPT}")
    said.add_argument("--json", action="store_true", help="every trial, as JSON")
    said.add_argument("--inside", type=int, nargs="+", metavar="N", help=argparse.SUPPRESS)
    asked = said.parse_args()
    if asked.inside:
        inside(asked.inside, asked.seed)
    else:
        sys.exit(main(asked))
