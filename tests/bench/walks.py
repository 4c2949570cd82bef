"""Random walks with kill -9 in them, as many as one likes; each must end on a machine that is exactly as it was.

By hand, a hundred to a lab, in virtual time. Takes about six seconds of a CPU a walk.

Example:
  longhaul lab run -- python3 tests/bench/walks.py 100 7
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helped import parser
from support import killed_walks, oracle

ACTIONS = 4


def main(count: int, seed: int, first: int) -> int:
    """Print what walks leave behind, how far we are, and the sum; the exit code is how many leave anything behind."""
    killed_walks.make_nics()
    time.sleep(30)  # of virtual time: until IPv6 has found its addresses to be free
    before, bad, deaths = oracle.snapshot(), 0, 0
    for number in range(first, first + count):
        walk = killed_walks.Walk(random.Random(f"{seed}/{number}"), Path(tempfile.mkdtemp()))
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
    said = parser(__doc__)
    said.add_argument("count", type=int, help="how many walks")
    said.add_argument("seed", type=int, help="of all their dice")
    said.add_argument("first", nargs="?", type=int, default=0, help="the number of the first; 0 unless said")
    asked = said.parse_args()
    sys.exit(main(asked.count, asked.seed, asked.first))
