"""Random walks with kill -9 in them, as many as one likes; each must end on a machine that is exactly as it was.

Run by hand, a hundred to a lab:  longhaul lab run -- python3 tests/bench/walks.py 100 SEED [FIRST]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

import oracle
import walking

ACTIONS = 4


def main(count: int, seed: int, first: int) -> int:
    """Print what walks leave behind, how far we are, and the sum; the exit code is how many leave anything behind."""
    walking.make_nics()
    time.sleep(30)  # of virtual time: until IPv6 has found its addresses to be free
    before, bad, deaths = oracle.snapshot(), 0, 0
    for number in range(first, first + count):
        walk = walking.Walk(random.Random(f"{seed}/{number}"), Path(tempfile.mkdtemp()))
        left = walk.take(ACTIONS, before)
        deaths += walk.killed
        bad += bool(left)
        if left:
            print(f"walk {number} of seed {seed}: {[one[:300] for one in left[:5]]}", flush=True)
        if number % 10 == 9:
            print(f"walk {number} of seed {seed}: {deaths} deaths so far", file=sys.stderr, flush=True)
    print(f"{count} walks of seed {seed} from {first}: {deaths} deaths, {bad} not as before", flush=True)
    return min(bad, 100)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
