"""The release is reproducible, and runs in seconds on fresh Debians. By hand, as root, on the host.

Clones the last commit into two folders, builds the release in each, the wire engine from its source, and compares all
bytes. Then makes root file systems by debootstrap with python3-venv, iperf3, iproute2 and ping; a user without rights
installs the wheel there and runs `longhaul demo`, and once more by uvx with an empty cache. Prints the seconds of each
step, and from the beginning of `pip install` to the first table. Takes 15 minutes on two CPUs, most of it debootstrap.

Example:
  .venv/bin/python tests/bench/release.py
  .venv/bin/python tests/bench/release.py --roots sid --made /tmp/roots --release dist    # what is built already
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from helped import parser

ROOT = Path(__file__).parents[2]
INCLUDED = "python3-venv,iperf3,iproute2,iputils-ping,ca-certificates"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
USER = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs")
IN_ROOT = """
set -e
mount -t proc proc {root}/proc && mount -t tmpfs -o mode=1777 tmpfs {root}/dev/shm
cp /etc/resolv.conf {root}/etc/ && cp {certificates} {root}/etc/ssl/certs/
rm -rf {root}/home/somebody && mkdir -m 777 {root}/home/somebody && cp {wheel} {root}/home/somebody/
exec chroot {root} {user} env -i PATH=/usr/bin:/bin HOME=/home/somebody PIP_CERT={certificates} sh -ec '{script}'
"""
SCRIPT = """
cd && python3 -m venv venv && date +%s.%N
venv/bin/pip install -q --disable-pip-version-check ./{wheel} && date +%s.%N
mkdir work && cd work && ../venv/bin/longhaul demo >demo.txt 2>demo.log && date +%s.%N
cd && python3 -m venv uv && uv/bin/pip install -q --disable-pip-version-check uv && date +%s.%N
cd work && SSL_CERT_FILE=$PIP_CERT ../uv/bin/uvx -q --from ../{wheel} longhaul demo >uvx.txt 2>uvx.log && date +%s.%N
cat demo.txt && grep -q "{exact}" uvx.txt
"""
EXACT = "no pair is off by more than"
TARGET_S = 60
"""From `pip install` to the first table, on a machine that does nothing else."""


def main() -> None:
    """Both parts; exits with 1 when the releases differ, or when a demo failed."""
    asked = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="release-") as made:
        folder = Path(made)
        same = asked.release is not None or _same(folder)
        wheel = next((asked.release or folder / "one/dist").glob("*manylinux*.whl"))
        shown = [_demo(suite, _root(suite, asked.made or folder), wheel) for suite in asked.roots]
    sys.exit(not (same and all(shown)))


def _same(folder: Path) -> bool:
    """Whether two releases have the same bytes; the first is left in `folder`/one/dist."""
    one, other = (_release(folder / name) for name in ("one", "another-folder"))
    differ = [file.name for file in sorted(one.iterdir()) if not filecmp.cmp(file, other / file.name, False)]
    print("the two releases differ in " + ", ".join(differ) if differ else "the two releases have the same bytes")
    return not differ


def _parser() -> argparse.ArgumentParser:
    made = parser(__doc__)
    made.add_argument(
        "--roots", nargs="*", default=["bookworm", "trixie", "sid"], metavar="SUITE", help="Debian's suites"
    )
    made.add_argument("--release", type=Path, metavar="DIR", help="try the wheel of this release, and build none")
    made.add_argument(
        "--made", type=Path, metavar="DIR", help="keep root file systems in DIR/deb-SUITE, and take those there"
    )
    return made


def _release(clone: Path) -> Path:
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    (clone / ".venv").symlink_to(ROOT / ".venv")
    began = time.monotonic()
    env = {**os.environ, "PYTHONPATH": str(clone)}
    subprocess.run([clone / "scripts/release"], env=env, check=True, stdout=subprocess.DEVNULL)
    print(f"release built in {time.monotonic() - began:.0f} s", flush=True)
    return clone / "dist"


def _root(suite: str, folder: Path) -> Path:
    root = folder / f"deb-{suite}"
    if not root.exists():
        command = ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", suite, root]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return root


def _demo(suite: str, root: Path, wheel: Path) -> bool:
    """Install and run the wheel as a user without rights; whether both demos showed an exact matrix."""
    script = IN_ROOT.format(
        root=root,
        certificates=CERTIFICATES,
        wheel=wheel,
        user=" ".join(USER),
        script=SCRIPT.format(wheel=wheel.name, exact=EXACT),
    )
    began = time.time()
    ran = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    home = root / "home/somebody"
    if ran.returncode:
        logs = "".join(log.read_text() for log in sorted(home.glob("work/*.log")))
        print(f"{suite}: ended with {ran.returncode}\n{ran.stdout}{ran.stderr}{logs}", flush=True)
        return False
    *times, table = ran.stdout.split("\n", 5)
    at = [began, *map(float, times)]
    steps = [after - before for before, after in pairwise(at)]
    print(
        "{}: venv {:.0f} s, pip install {:.0f} s, demo {:.0f} s; uv {:.0f} s, demo by uvx {:.0f} s".format(
            suite, *steps
        )
    )
    print(f"{steps[1] + steps[2]:.0f} s from pip install to the table; {TARGET_S} s are wanted")
    print(table.split("\n\ndefault, 1 stream")[0], flush=True)
    shutil.rmtree(home)
    return EXACT in table


if __name__ == "__main__":
    main()
