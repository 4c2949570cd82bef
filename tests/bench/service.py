"""The appliance under a live systemd: installed, killed, stopped, restarted, rebooted. By hand, as root.

FOLDER becomes a Debian 12 with systemd as its first process (by debootstrap and systemd-container); its network is its
own, two cables take the place of NICs. Prints what was seen; exit code 1 when anything is not as it should be. The
lanes go through the wire engine where this kernel has no netem. Takes several minutes, and the first time more, with
the network.

Example:
  sudo python3 tests/bench/service.py /var/tmp/box
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from helped import parser

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.waiting import until

CLONE = Path(__file__).parents[2]
INSIDE = "/mnt/longhaul"
"""Where the container sees the clone, from which it installs."""

PACKAGES = "systemd,systemd-sysv,dbus,udev,iproute2,iputils-ping,ca-certificates,python3-venv"
WATCHDOG_S = 4
NONE_LOST = "0% packet loss"
NICS = "".join(
    f"ip netns add far{n}; ip link add eth{n} type veth peer name eth0 netns far{n}; ip link set eth{n} up;"
    f"ip -n far{n} addr add 10.9.0.{n}/24 dev eth0; ip -n far{n} link set eth0 up;"
    for n in (1, 2)
)
TOPOLOGY = """\
name: office
hub: new-york
on_drift: restore
defaults: {rate: 100Mbit}
lanes: {london: {rtt: 40ms}, tokyo: {rtt: 80ms, ports: {hub: eth1, site: eth2}}}
"""


def nspawn(root: Path, *options: str) -> list[str]:
    """The command for a container of the folder; it sees the clone."""
    return ["systemd-nspawn", "-q", "-D", str(root), f"--bind-ro={CLONE}:{INSIDE}", "--register=no",
            "--keep-unit", "--console=pipe", *options]  # fmt: skip


def prepare(root: Path) -> None:
    """Make the Debian of FOLDER and install what an appliance needs, as far as that is not there yet."""
    if not (root / "usr").exists():
        subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)], check=True)
    # Inside, the clone is read-only: the engine must be there already.
    subprocess.run([CLONE / "scripts/install"], check=True)
    subprocess.run(nspawn(root, "--as-pid2", f"{INSIDE}/scripts/install", "--appliance"), check=True)


class Box:
    """A container that runs; `pid` is its first process, seen from outside."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def sh(self, script: str) -> str:
        """What a script prints in there; its exit code does not matter."""
        inside = ["nsenter", "-t", str(self._pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w"]
        clean = ["env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"]
        done = subprocess.run(
            [*inside, *clean, "sh", "-c", script], text=True, capture_output=True, timeout=120, check=False
        )
        return (done.stdout + done.stderr).strip()

    def shown(self, key: str) -> str:
        """A property of the service."""
        return self.sh(f"systemctl show -p {key} --value longhaul")

    def is_active(self) -> bool:
        return self.sh("systemctl is-active longhaul") == "active"


@contextmanager
def booted(root: Path) -> Iterator[Box]:
    """The container from its boot to its power-off."""
    with subprocess.Popen(nspawn(root, "-b", "--private-network"), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as container:  # fmt: skip
        box = Box(first_process(container.pid))
        until(lambda: box.sh("systemctl is-system-running") in ("running", "degraded"))
        try:
            yield box
        finally:
            box.sh("systemctl poweroff")
            container.wait(60)


def first_process(container: int) -> int:
    """The container's systemd; nspawn has helpers at first, too."""
    while True:
        for child in Path(f"/proc/{container}/task/{container}/children").read_text().split():
            with suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return int(child)
        time.sleep(0.1)


def lost_meanwhile(box: Box, act: str) -> str:
    """How much of a ping through the lane between the NICs is lost while something is done."""
    ping = "ip netns exec far1 ping -i 0.1 -c 60 -W 3 -q 10.9.0.2"
    said = box.sh(f"{ping} >/tmp/ping & sleep 1; {act}; wait; cat /tmp/ping")
    found = re.search(r"([\d.]+% packet loss)", said)
    return found[1] if found else said


def first_life(box: Box, see: Callable[[str, bool, object], None]) -> None:
    """Until the machine is switched off: installed, up, restarted, killed, silent, changed by others."""
    box.sh(f"systemctl disable --now longhaul; rm -rf /var/lib/longhaul; {NICS}")
    Path("/proc", str(box._pid), "root/etc/longhaul.yaml").write_text(TOPOLOGY)
    said = box.sh(f"{INSIDE}/scripts/install --appliance")
    see("installed, the service is ready", box.is_active() and box.shown("StatusText") == "watching", said)
    score = re.search(r"exposure level.*: ([\d.]+)", box.sh("systemd-analyze security --no-pager longhaul"))
    see("systemd-analyze security", score is not None and float(score[1]) < 5, score and score[1])
    said = box.sh("longhaul up /etc/longhaul.yaml")
    see("lanes are up", lost_meanwhile(box, "true") == NONE_LOST, said)


def silent(box: Box, see: Callable[[str, bool, object], None]) -> None:
    """A daemon that hangs is ended by systemd's watchdog, here after a few seconds, and started again."""
    folder = "/run/systemd/system/longhaul.service.d"
    box.sh(f"mkdir -p {folder}; printf '[Service]\\nWatchdogSec={WATCHDOG_S}s\\n' >{folder}/watchdog.conf")
    box.sh("systemctl daemon-reload; systemctl restart longhaul")
    quiet = not until(lambda: box.shown("NRestarts") != "0", 3 * WATCHDOG_S)
    see("its pings keep the watchdog quiet", quiet and box.is_active(), f"{3 * WATCHDOG_S} s")
    box.sh("kill -STOP $(systemctl show -p MainPID --value longhaul)")
    came = until(lambda: box.shown("NRestarts") == "1" and box.is_active())
    see("stopped, it is started anew", came, box.sh("journalctl -b -u longhaul -o cat | grep 'Watchdog timeout'"))


def second_life(box: Box, see: Callable[[str, bool, object], None]) -> None:
    """After a reboot all is the daemon's: the virtual lane at once, the other as soon as its NICs are there."""
    said = box.sh("ip netns exec lh-new-york ping -c 1 10.77.0.2")
    see("after the reboot the intent is back", f" {NONE_LOST}" in said, said.splitlines()[-1])
    said = box.sh("journalctl -b -u longhaul -o cat | grep event=blocked")
    see("what cannot be is told", "eth1" in said, said)
    box.sh(NICS)
    came = until(lambda: box.sh("longhaul status >/dev/null; echo $?") == "0")
    lost = lost_meanwhile(box, "true")
    see("the NICs' lane is back with them", came and lost == NONE_LOST, lost)
    lost = lost_meanwhile(box, "systemctl restart longhaul")
    see("the daemon restarted: on the lane", lost == NONE_LOST, lost)
    lost = lost_meanwhile(box, "kill -9 $(systemctl show -p MainPID --value longhaul)")
    see("the daemon killed: on the lane", lost == NONE_LOST, lost)
    see("and started again", until(lambda: box.is_active() and box.shown("NRestarts") == "1"), box.shown("NRestarts"))
    silent(box, see)
    box.sh("ip link set eth1 down")
    came = until(lambda: "<BROADCAST,MULTICAST,NOARP,UP" in box.sh("ip -br link show eth1"))
    see("a port set down by others is repaired", came, box.sh("ip -br link show eth1"))
    lines = box.sh("journalctl -b -u longhaul -o cat _COMM=longhaul").splitlines()
    pair = r'[a-z_]+=("([^"\\]|\\.)*"|\S+)'
    wrong = [line for line in lines if not re.fullmatch(rf"{pair}( {pair})*", line)]
    see("the journal has key=value", bool(lines) and not wrong, f"{len(lines)} lines; {(wrong or lines)[-1][:120]}")


def main(root: Path) -> int:
    bad = 0

    def see(what: str, is_so: bool, seen: object) -> None:
        nonlocal bad
        bad += not is_so
        print(f"{'ok ' if is_so else 'NOT'} {what}: {seen}", flush=True)

    prepare(root)
    for life in (first_life, second_life):
        with booted(root) as box:
            life(box, see)
    return min(bad, 1)


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("folder", type=Path, help="where the Debian is, or will be")
    asked = said.parse_args()
    if os.geteuid() != 0:
        said.error("it needs root")
    sys.exit(main(asked.folder.resolve()))
