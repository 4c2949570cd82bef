"""Measures the same cells on the lab's kernel and on kernels that lack one of Longhaul's changes each.

Every change is taken back by its own patch reversed, in a kernel of its own. One stream of CUBIC and of BBR, 1 Gbit/s,
with and without loss: the figures must agree to 1 %. Prints the differences cell by cell, and the CPU time of each.
Takes half an hour to an hour for all nine on two idle CPUs: the first build four minutes of it, each further one less.

Example:
  timeout 2h .venv/bin/python tests/bench/edits.py --rtt 20,80
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import helped
import sweeps

from emulator.lab.build_kernel import PATCHES
from emulator.lab.kernel_patches import CHANGES

BOTTLENECKS = ("--rate", "1Gbit", "--loss", "0,0.01%")
STREAMS = ("--cc", "cubic,bbr", "--tcp-profile", "max", "--duration", "10s", "--repeats", "1")
AGREE = 0.01
_TURNED = {"+": "-", "-": "+"}


def reversed_patch(text: str) -> str:
    """The patch that takes another one back."""
    lines = []
    for line in text.splitlines()[text[: text.index("--- a/")].count("\n") :]:
        if hunk := re.fullmatch(r"@@ -(\S+) \+(\S+) @@", line):
            lines.append(f"@@ -{hunk[2]} +{hunk[1]} @@")
        elif line.startswith(("--- a/", "+++ b/")):
            lines.append(line)
        else:
            lines.append(_TURNED.get(line[:1], line[:1]) + line[1:])
    return "\n".join(lines) + "\n"


def built(change: str, folder: Path) -> str | None:
    """The name of the kernel without this change; None when it does not boot, and so is not kept."""
    file, name = folder / f"{change}.patch", f"without-{change[:4]}"
    file.write_text(reversed_patch((PATCHES / f"{change}.patch").read_text()))
    done = subprocess.run([sweeps.LONGHAUL, "lab", "build", "--patch", file, "--name", name], check=False, cwd=folder)
    return None if done.returncode else name


def timed(kernel: str | None, rtt: str, folder: Path) -> dict[str, float]:
    """The rates on this kernel, or on the lab's own; prints the CPU time that they took."""
    chosen = ("--kernel", kernel) if kernel else ()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = sweeps.rates(folder, "--in-lab", *BOTTLENECKS, *STREAMS, "--rtt", rtt, *chosen)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{kernel or 'all'}: {after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.0f} s of CPU",
        flush=True,
    )
    return found


def main() -> None:
    """Build, measure, compare."""
    parser = helped.parser(__doc__)
    parser.add_argument("--rtt", default="20,80")
    parser.add_argument("--changes", default=",".join(change.name[:4] for change in CHANGES))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="longhaul-edits-") as name:
        folder = Path(name)
        found: dict[str, dict[str, float] | None] = {}
        for change in (one.name for one in CHANGES if one.name[:4] in asked.changes.split(",")):
            kernel = built(change, folder)
            found[change] = timed(kernel, asked.rtt, folder) if kernel else None
        whole = timed(None, asked.rtt, folder)
        worst = 0.0
        print("| change | " + " | ".join(whole) + " |\n| --- |" + " --- |" * len(whole))
        print("| all | " + " | ".join(f"{rate:.1f}" for rate in whole.values()) + " |")
        for change, of_cells in found.items():
            if of_cells is None:
                print(f"| without `{change[:4]}` |" + " does not boot |" * len(whole))
                continue
            differences = [of_cells[cell] / rate - 1 for cell, rate in whole.items()]
            worst = max([worst, *map(abs, differences)])
            print(f"| without `{change[:4]}` | " + " | ".join(f"{one:+.2%}" for one in differences) + " |")
        print(f"worst: {worst:.2%}")
        sys.exit(worst > AGREE)


if __name__ == "__main__":
    main()
