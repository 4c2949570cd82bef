"""The appliance between two other machines, all stock Debians under QEMU, cabled by sockets. By hand, as root.

RELEASE and FOLDER are as in stock.py. The hosts at the hub and at the site are machines of their own, reached over SSH
by cables of their own. From the .deb: `nics`, `init`, `up`, `verify`, a sweep over SSH, `set` under traffic, `down`.
QEMU has no KVM here, and the three run by this machine's clock, so each round trip has QEMU's time in it: `verify` must
measure no less than was asked, and tells how much more it was. Exit code 1 when anything is not as it should be. Takes
7 minutes on two CPUs, 2 of them for the disk.

Example:
  scripts/release --out dist
  .venv/bin/python tests/bench/cabled.py dist /dev/shm/stock --suite bookworm
"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import helped

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import stock_images
from support.cabled_machines import APPLIANCE, CABLES, HUB, SITE, cabled, mac
from support.folders import ROOT
from support.stock_machines import Machine
from support.stock_steps import AS_FOUND, FILE, OTHER_MS, PINGS, RTT_MS, Seen, given_back, last, line, loss

SCRIPTS = ROOT / "scripts/vagrant"
"""The founding lab's: they configure its machines, too."""
THERE = "/srv/vagrant"
ON_LANE = {HUB: "10.77.0.1", SITE: "10.77.0.2"}
ON_SSH = {HUB: "192.168.96", SITE: "192.168.97"}
"""Of each host its address on the lanes, and the network of its cable for SSH."""
KEY = "/etc/ssh/stock_key"
PATIENCE_S = 60


def main() -> int:
    """Boot the three, try all; the exit code."""
    asked = helped.on_stock_debian(__doc__)
    asked.add_argument("--suite", default="trixie")
    given = asked.parse_args()
    package = helped.package(asked, given.release)
    folder = given.folder.resolve()
    image = stock_images.made(folder, given.suite, package, keep=given.keep)
    seen, began = Seen(f"Debian {image.release}"), time.monotonic()
    with cabled(stock_images.qemu_root(folder), image) as machines:
        seen.row("", "three machines boot", True, "", time.monotonic() - began)
        for step in (connected, up, verified, swept, changed, down):
            step(machines, seen)
    if not given.keep:
        stock_images.delete(folder, image)
    print(*map(line, seen.rows), sep="\n")
    print(f"{sum(row.ok for row in seen.rows)} of {len(seen.rows)} are as they should be")
    return int(not all(row.ok for row in seen.rows))


def connected(machines: dict[str, Machine], seen: Seen) -> None:
    """The hosts have their addresses, and the appliance logs in on them."""
    files = {path.name: path.read_text() for path in SCRIPTS.iterdir() if path.name != "box"}
    writes = "".join(f"printf %s {shlex.quote(text)} >{THERE}/{name};" for name, text in files.items())
    for machine in machines.values():
        machine.sh(f"mkdir -p {THERE}; {writes} chmod +x {THERE}/*")
    appliance = machines[APPLIANCE]
    authorize = f"mkdir -p ~/.ssh; echo {shlex.quote(appliance.sh(f'cat {KEY}.pub').out)} >~/.ssh/authorized_keys"
    for host in (HUB, SITE):
        cables = {f"{host}-port": f"{ON_LANE[host]}/24", f"{host}-ssh": f"{ON_SSH[host]}.2/24"}
        addressed = "; ".join(_addressed(cable, host, address) for cable, address in cables.items())
        machines[host].sh(f"{addressed}; {authorize}")
        appliance.sh(_addressed(f"{host}-ssh", APPLIANCE, f"{ON_SSH[host]}.1/24"))
    hosts = " ".join(f"{host} {ON_SSH[host]}.2" for host in (HUB, SITE))
    logins = " && ".join(f"ssh {host} uname -n" for host in (HUB, SITE))
    wait = f"timeout {PATIENCE_S} sh -c 'until ping -c 1 -W 1 {ON_SSH[SITE]}.2; do :; done' >/dev/null"
    said = appliance.sh(f"{wait}; {THERE}/ssh-access {KEY} root {hosts}; {logins}")
    seen.row("", "the appliance logs in on both hosts", said.code == 0, " ".join(said.out.split()), said.s)


def _addressed(cable: str, machine: str, address: str) -> str:
    """A command that gives the NIC of a cable its address."""
    return f"{THERE}/host-network {mac(cable, machine)} {address}"


def up(machines: dict[str, Machine], seen: Seen) -> None:
    """The ports are seen with their drivers; `init` pairs them, and the lane comes up."""
    appliance = machines[APPLIANCE]
    # A NIC that was never up has no queue yet, and never again afterwards.
    ports = f"for m in {_port_macs()}; do p=$({THERE}/interface-of $m); ip link set $p up; echo $p; done"
    said = appliance.sh(f"{ports}; longhaul nics")
    hub, site, *rows = said.out.splitlines()
    seen.ports = {("", HUB): hub, ("", SITE): site}
    for port, cable in ((hub, "hub-port"), (site, "site-port")):
        row = next(text.split() for text in rows if text.split()[:1] == [port])
        seen.row(cable, "nics: driver, free", row[1] == CABLES[cable][1] and row[-1] == "free", " ".join(row), said.s)
    seen.found = appliance.sh(AS_FOUND.format(ports=seen.all_ports())).out
    said = appliance.sh(f"longhaul init --force {FILE} --hub {HUB} --rtt {SITE}={RTT_MS}ms; cat {FILE}")
    pair = f"ports: {{hub: {hub}, site: {site}}}"
    seen.row("", "init: pairs the ports", pair in said.out, pair if pair in said.out else said.out, said.s)
    appliance.sh(f"sed -i 's/^subnet/hub_host: {HUB}\\nsubnet/; s/^  {SITE}:/  {SITE}:\\n    host: {SITE}/' {FILE}")
    said = appliance.sh(f"longhaul up {FILE} && longhaul status >/dev/null")
    seen.row("", "up", said.code == 0, last(said.out), said.s)


def _port_macs() -> str:
    return " ".join(mac(cable, APPLIANCE) for cable in ("hub-port", "site-port"))


def verified(machines: dict[str, Machine], seen: Seen) -> None:
    """The certificate between the two machines, over SSH."""
    said = machines[APPLIANCE].sh("longhaul verify 2>/dev/null")
    rows = [text.split() for text in said.out.splitlines() if text.split()[:2] == [HUB, SITE]]
    is_so = bool(rows) and float(rows[0][3]) >= RTT_MS
    seen.row("", "verify: no less than asked", is_so, " ".join(rows[0]) if rows else last(said.out), said.s)


def swept(machines: dict[str, Machine], seen: Seen) -> None:
    """One cell between the two machines, to its end."""
    axes = f"--lane {SITE} --tcp-profile default --rate 10Mbit --duration 5s --repeats 1"
    said = machines[APPLIANCE].sh(
        f"cd; longhaul sweep {axes} 2>&1; echo exit $?; longhaul status >/dev/null; echo after $?"
    )
    cell = [text for text in said.out.splitlines() if text.startswith(f"{RTT_MS} ms ")]
    # Eight: QEMU's own latency is in the round trip, so the cell's figure is void there.
    is_so = bool(cell) and ("exit 0" in said.out or "exit 8" in said.out) and said.out.endswith("after 0")
    seen.row(
        "", "sweep over SSH: one cell at 10 Mbit/s", is_so, " ".join((cell or [said.out[-300:]])[-1].split()), said.s
    )


def changed(machines: dict[str, Machine], seen: Seen) -> None:
    """A new RTT while one machine sends to the other."""
    machines[HUB].begin(f"ping -i 0.05 -c {PINGS} -W 3 -q {ON_LANE[SITE]}")
    act = machines[APPLIANCE].sh(f"longhaul set {SITE} --rtt {OTHER_MS}ms")
    said = machines[HUB].end()
    is_so, told = f"{PINGS} received" in said.out, f"{loss(said.out)}; {last(act.out)}"
    seen.row("", "set under traffic: loses nothing", is_so, told, act.s)


def down(machines: dict[str, Machine], seen: Seen) -> None:
    """The ports are as they were found."""
    act = "longhaul down >/dev/null"
    given_back(machines[APPLIANCE], seen.found, seen, "down: the ports are as they were found", act)


if __name__ == "__main__":
    sys.exit(main())
