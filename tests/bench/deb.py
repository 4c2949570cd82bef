"""The Debian packages on fresh Debians: demo, upgrades under traffic, removal, purge. By hand, as root.

RELEASE is the folder of scripts/release. Makes root file systems by debootstrap below FOLDER, installs both packages by
apt, and boots systemd in a container (systemd-container); its network is its own, two cables take the place of NICs.
The upgrade is to the same package with the next version in its control file and in its code. The lanes go through the
wire engine where this kernel has no netem; in the lab, on the same root file system, they go through netem, and the
package is upgraded there while a change waits for its confirmation. Prints what was seen; exit code 1 when anything is
not as it should be. Takes 12 minutes for both on two CPUs, most of it debootstrap.

Example:
  .venv/bin/python tests/bench/deb.py dist /dev/shm/debians
  .venv/bin/python tests/bench/deb.py dist /dev/shm/debians --suites trixie
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from helped import parser
from service import CLONE, NICS, PACKAGES, TOPOLOGY, Box, booted

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.waiting import until

NEXT = "9.9.9"
INCLUDED = PACKAGES.replace("python3-venv", "man-db")
PINGS = 4000
"""100 a second at most: more than half a minute of them."""
PING = f"ip netns exec far1 ping -i 0.01 -c {PINGS} -W 5 -q 10.9.0.2 >/tmp/ping 2>&1"
INSTALL = "apt-get update -q; apt-get install -q -y --no-install-recommends /packages/*.deb"
USER = "setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --no-new-privs"
DEMO = f"mkdir -m 777 -p /tmp/demo; cd /tmp/demo; {USER} env -i PATH=/usr/bin:/bin HOME=/tmp/demo longhaul"
TRACES = "/usr/lib/longhaul /var/lib/longhaul /run/longhaul /etc/systemd/system/*/longhaul.service"

CONFIRM_S = 30
IN_LAB = rf"""
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
L=/usr/bin/longhaul
begin() {{
    : >/tmp/log; $L serve --socket /run/longhaul/longhaul.sock >/tmp/log 2>&1 & daemon=$!
    until grep -q event=watching /tmp/log; do sleep 0.1; done
}}
upgrade() {{ kill $daemon; wait $daemon || true; dpkg -i /packages/$1.deb /packages/$1-lab.deb >/dev/null; begin; }}
rtt() {{ ip netns exec far1 ping -c 3 -i 0.2 -q 10.9.0.2 | sed -n 's/^rtt.* = \([0-9.]*\)\/.*/\1/p'; }}
queues() {{ tc -s qdisc show dev eth2; }}
wait_s() {{ $L status --json | sed -n 's/.*"seconds_left": \([0-9]*\).*/\1/p'; }}
{NICS} mkdir -p /run/longhaul
begin; $L up /tmp/office.yaml >/dev/null
echo kind=$(queues | grep -c netem) first=$(rtt)
$L set tokyo --rtt 120ms --confirm {CONFIRM_S}s >/dev/null
(ip netns exec far1 ping -i 0.01 -c 500 -W 5 -q 10.9.0.2 >/tmp/ping) & traffic=$!
upgrade next; echo version=$($L --version | sed 's/.* //') left=$(wait_s) asked=$(rtt)
wait $traffic; echo lost=$(sed -n 's/.* \([0-9.]*\)% packet loss.*/\1/p' /tmp/ping)
sleep {CONFIRM_S}; echo reverted=$(rtt) status=$($L status >/dev/null; echo $?)
$L set tokyo --rtt 120ms --confirm {CONFIRM_S}s >/dev/null
upgrade old; echo back=$($L --version | sed 's/.* //'); $L confirm >/dev/null
sleep {CONFIRM_S}; echo confirmed=$(rtt) after=$($L status >/dev/null; echo $?)
$L down >/dev/null; echo down=$(ip -br link | grep -c lh- || true); kill $daemon
"""
"""Both upgrades in virtual time, with the lanes in netem. There is no systemd: the script does what its unit does."""

ENGINES = "grep -lx longhaul-wire /proc/[0-9]*/comm"

See = Callable[[str, bool, object], None]


def main() -> int:
    """All suites; the exit code."""
    asked = parser(__doc__)
    asked.add_argument("release", type=Path)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--suites", nargs="*", default=["bookworm", "trixie"])
    given = asked.parse_args()
    bad = 0

    def see(what: str, is_so: bool, seen: object) -> None:
        nonlocal bad
        bad += not is_so
        print(f"{'ok ' if is_so else 'NOT'} {what}: {seen}", flush=True)

    for suite in given.suites:
        root = given.folder / suite
        if not (root / "usr").exists():
            command = ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", suite, root]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(root / "packages", ignore_errors=True)
        (root / "packages").mkdir()
        for package in given.release.glob("*.deb"):
            shutil.copy(package, root / "packages")
        print(f"# {suite}, Debian {(root / 'etc/debian_version').read_text().strip()}")
        installed(root, see)
        upgraded_in_the_lab(root, see)
        with booted(root) as box:
            lived(box, root, see)
    return bool(bad)


def installed(root: Path, see: See) -> None:
    """Install by apt before the machine runs, as in an image; then the demo."""
    code, said = inside(root, INSTALL)
    see("apt installs both", code == 0, said.splitlines()[-1])
    code, said = inside(root, "longhaul --version; dpkg --verify longhaul longhaul-lab")
    see("nothing but the packages' files", code == 0 and len(said.splitlines()) == 1, said)
    began = time.monotonic()
    code, said = inside(root, f"{DEMO} demo")
    see("demo as nobody", code == 0, f"{time.monotonic() - began:.0f} s\n{said}")


def upgraded_in_the_lab(root: Path, see: See) -> None:
    """Upgrade and downgrade while a change waits: it is reverted by the next version, confirmed in the one before."""
    packages = root / "packages"
    for name, package in (("", "longhaul_*"), ("-lab", "longhaul-lab_*")):
        current = next(packages.glob(f"{package}.deb"))
        newer(current, packages / f"next{name}.deb")
        shutil.copy(current, packages / f"old{name}.deb")
    script = f"cat >/tmp/office.yaml <<'E'\n{TOPOLOGY}E\n{IN_LAB}"
    command = [sys.executable, "-m", "emulator", "lab", "run", "--root", str(root), "--", "sh", "-c", script]
    done = subprocess.run(command, cwd=CLONE, text=True, capture_output=True, check=False)
    found = dict(pair.split("=", 1) for pair in done.stdout.split() if "=" in pair)
    see("upgraded in the lab", done.returncode == 0, found if done.returncode == 0 else done.stdout + done.stderr)
    wanted = {"kind": "1", "version": NEXT, "lost": "0", "status": "0", "after": "0", "down": "0"}
    see("netem's lanes lost nothing", wanted.items() <= found.items(), wanted)
    around = {"first": 80, "asked": 120, "reverted": 80, "confirmed": 120}
    exact = all(abs(float(found.get(name) or 0) - rtt) < 0.1 for name, rtt in around.items())
    see("a waiting change is reverted and confirmed by another version", exact, around)
    see("it waited on", 0 < int(found.get("left") or 0) <= CONFIRM_S, found.get("left"))


def lived(box: Box, root: Path, see: See) -> None:
    """The service, the upgrade under traffic, the removal, the purge."""
    see("the service runs", until(box.is_active), box.shown("StatusText"))
    box.sh(NICS)
    (root / "etc/longhaul.yaml").write_text(TOPOLOGY)
    said = box.sh("longhaul up /etc/longhaul.yaml; longhaul status")
    see("lanes are up", box.sh("ip netns exec far1 ping -c 3 -q 10.9.0.2 | grep -c ' 0% packet loss'") == "1", said)
    engines, daemon = box.sh(ENGINES), box.shown("MainPID")
    said = box.sh("longhaul set london --rtt 44ms --confirm 10min")
    see("a change waits", "44 ms" in said, said)
    said = box.sh(f"{PING} & cd /packages; dpkg -i next.deb next-lab.deb; ls -d /proc/$!; wait")
    lost = box.sh("grep transmitted /tmp/ping")
    see("upgraded under traffic", f"{PINGS} received, 0% packet loss" in lost, lost)
    see("before the last of it", said.splitlines()[-1].startswith("/proc/"), said)
    see("the new version serves", until(box.is_active) and box.shown("MainPID") != daemon, box.sh("longhaul --version"))
    see("engines stayed", box.sh(ENGINES) == engines, engines.split())
    see("the new version knows the lanes", box.sh("longhaul status >/dev/null; echo $?") == "0", "status exits with 0")
    said = box.sh("longhaul confirm; longhaul status")
    see("the new version confirms what waited", said.startswith("confirmed: ") and " 44ms " in said, said)
    said = box.sh("apt-get remove -q -y longhaul 2>&1 | grep -v Reading")
    left = box.sh("ip -br link; ls /run/longhaul; ip netns")
    see("removed: the ports are returned", "lh-" not in left and "master" not in left, f"{said}\n{left}")
    said = box.sh("apt-get purge -q -y longhaul longhaul-lab 2>&1 | tail -2")
    left = box.sh(f"ls -d {TRACES} 2>/dev/null")
    see("purged: nothing is left", left == "", left or said)


def newer(package: Path, goal: Path) -> None:
    """The package as its next version."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "root"
        subprocess.run(["dpkg-deb", "-R", package, root], check=True)
        control = root / "DEBIAN/control"
        old = next(line for line in control.read_text().splitlines() if line.startswith("Version: ")).split()[1]
        control.write_text(control.read_text().replace(old, f"{NEXT}-1"))
        for code in root.glob("usr/lib/longhaul/lib/python3/site-packages/emulator/__init__.py"):
            code.write_text(code.read_text().replace(old.partition("-")[0], NEXT))
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zxz", "-z0", "-b", root, goal], check=True, stdout=subprocess.DEVNULL
        )


def inside(root: Path, script: str) -> tuple[int, str]:
    """A script's exit code and output in the root file system, with this machine's network and no service."""
    command = ["systemd-nspawn", "-q", "-D", str(root), "--register=no", "--keep-unit", "--console=pipe", "--as-pid2"]
    done = subprocess.run([*command, "sh", "-c", script], text=True, capture_output=True, check=False)
    return done.returncode, (done.stdout + done.stderr * (done.returncode != 0)).strip()


if __name__ == "__main__":
    sys.exit(main())
