"""What tests/bench/stock.py does with a machine of stock_machines, and what it looks at."""

from __future__ import annotations

import csv
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from support.stock_images import Image
from support.stock_machines import ENDS, MODELS, QUEUES, Answer, Machine, mac

FILE = "/etc/longhaul.yaml"
RTT_MS, OTHER_MS = 32, 44
DRIVERS = {"virtio": "virtio_net", "virtio-mq": "virtio_net"}
"""Of a kind the name of its driver, where it has another."""
PINGS = 300
MOST_TRIES = 3
"""The most measurements of a lane whose cable is a bridge of this machine's, before it counts as failed."""
BACK_S = 60
"""How long a lane may take to come back, in the machine's time."""
CPU1 = "/sys/devices/system/cpu/cpu1/online"
EXACT = f"echo 0 >{CPU1}; longhaul verify 2>/dev/null; echo 1 >{CPU1}"
"""With two CPUs QEMU runs one of them for a while before the other: some echoes are 1 or 2 ms late."""
BACK = f"""n=0; until longhaul status >/dev/null 2>&1; do n=$((n+1)); [ $n -gt {BACK_S} ] && break; sleep 1; done
longhaul status"""
SWEEPS = "/srv/sweeps"
"""The folder of the runs."""
STEERED = """for p in {ports}; do cat /sys/class/net/$p/queues/*/[rx]ps_cpus
for i in $(ls /sys/class/net/$p/device/msi_irqs /sys/class/net/$p/device/../msi_irqs 2>/dev/null | grep '^[0-9]'); do
echo $i $(cat /proc/irq/$i/smp_affinity_list); done; done"""
DEVICES = """for p in {ports}; do d=$(readlink -f /sys/class/net/$p/device)
case $d in */virtio*) d=$(dirname $d);; esac; echo $(basename $d) $(readlink -f $d/driver); done"""
"""The PCI devices of these ports, with their drivers; a virtio NIC's device is below its PCI device."""
LINKED = """n=0; for p in {ports}; do
until [ "$(cat /sys/class/net/$p/operstate)" = up ] || [ $n = 100 ]; do n=$((n+1)); sleep 0.1; done; done"""
"""An igb has its link seconds after the boot; ten are enough for all."""
AS_FOUND = """for p in {ports}; do ip -o link show $p | sed 's/^[0-9]*: //'; ip -o addr show $p | grep -v ' valid_lft'
tc qdisc show dev $p; ethtool -k $p | grep -E '^(generic-receive|large-receive)'; done; ip -br link show type bridge"""


@dataclass(frozen=True)
class Row:
    """One thing that was tried. `s`: seconds of the machine's time, where a script ran."""

    debian: str
    nic: str
    what: str
    ok: bool
    seen: str
    s: float


class Seen:
    """The rows of one suite, also on stderr as they come."""

    def __init__(self, debian: str) -> None:
        self.debian, self.rows = debian, list[Row]()
        self.ports: dict[tuple[str, str], str] = {}
        self.found = ""

    def row(self, nic: str, what: str, ok: bool, seen: str, s: float) -> None:
        """Note a row."""
        made = Row(self.debian, nic, what, ok, seen, round(s, 1))
        self.rows.append(made)
        sys.stderr.write(f"{line(made)}\n")

    def pair(self, kind: str) -> str:
        """Both ports of a kind, for a shell."""
        return " ".join(self.ports[kind, end] for end in ENDS)

    def site_ports(self, kinds: Iterable[str]) -> str:
        return " ".join(self.ports[kind, "site"] for kind in kinds)

    def all_ports(self) -> str:
        return " ".join(self.ports.values())


Life = Callable[[Machine, Seen], None]
Moment = tuple[str, float]
"""A command, and the part of its time after which the power is cut."""

COMMANDS = {
    "up": ("longhaul down", f"longhaul up {FILE}"),
    "down": (f"longhaul up {FILE}", "longhaul down"),
    "set": (f"longhaul up {FILE}", f"longhaul set --all --rtt {OTHER_MS}ms"),
}
"""Of a command what is done before it, and its line."""
MOMENTS = [("up", 0.4), ("down", 0.4), ("down", 0.6), ("up", 0.6), ("set", 0.5), ("set", 0.8),
           ("up", 0.8), ("down", 0.8), ("down", 0.9), ("up", 0.9)]  # fmt: skip
"""In the first third of a command's time Python starts: a cut there would try nothing of ours."""


def line(row: Row) -> str:
    """A row of the table."""
    return f"{row.debian:<14}{row.nic or 'all':<9}{'ok ' if row.ok else 'NOT'} {row.what:<44}{row.s:>6} s  {row.seen}"


def show(rows: Sequence[Row]) -> None:
    """The table again, NIC by NIC."""
    lines = ["", "NIC by NIC:"]
    for debian in dict.fromkeys(row.debian for row in rows):
        for nic in ("", *MODELS):
            lines += [line(row) for row in rows if (row.debian, row.nic) == (debian, nic)]
    lines.append(f"{sum(row.ok for row in rows)} of {len(rows)} are as they should be")
    sys.stdout.write("\n".join([*lines, ""]))


def lives(image: Image, parts: Sequence[str], moments: Sequence[Moment]) -> Iterator[tuple[str, list[Life]]]:
    """What happens after each boot, with its kernel. Each ends with the power cut, at one of these moments."""
    own, *newer = image.kernels
    first: list[Life] = [listed, up]
    first += [verified, changed, tuned, swept, unbound] if "ports" in parts else []
    first += [unplugged, returned] if "plugs" in parts else []
    if "boots" not in parts:
        yield own, first
        return
    look = [*first, rebooted]
    for moment in moments:
        yield own, [*look, cut_in(*moment)]
        look = [whole]
    yield (newer or [own])[-1], [*look, up, verified, gone]


def listed(machine: Machine, seen: Seen) -> None:
    """The service runs, and the ports are seen with their drivers."""
    said = machine.sh("systemctl is-system-running --wait; systemctl is-active longhaul")
    state = said.out.split()
    seen.row("", "the service of the .deb runs", state == ["running", "active"], " ".join(state), said.s)
    links = {words[2]: words[0] for words in map(str.split, machine.sh("ip -br link").out.splitlines())}
    seen.ports = {(kind, end): links[mac(kind, end)] for kind in MODELS for end in ENDS}
    seen.found = machine.sh(f"{LINKED.format(ports=seen.all_ports())}; {AS_FOUND.format(ports=seen.all_ports())}").out
    said = machine.sh("longhaul nics")
    rows = {words[0]: words for words in map(str.split, said.out.splitlines())}
    refused = [text for text in said.out.splitlines() if "carries the default route" in text]
    seen.row("", "nics: refuses the port of the default route", len(refused) == 1, " ".join(refused), said.s)
    for kind in MODELS:
        port = rows[seen.ports[kind, "hub"]]
        is_so = port[1] == DRIVERS.get(kind, kind) and re.fullmatch(r"0000:[0-9a-f]{2}:00\.0", port[2]) is not None
        seen.row(kind, "nics: driver, PCI address, free", is_so and port[-1] == "free", " ".join(port), said.s)


def up(machine: Machine, seen: Seen) -> None:
    """Init proposes a lane for each kind; with the hosts added, they come up."""
    rtts = " ".join(f"--rtt {kind}={RTT_MS}ms" for kind in MODELS)
    # Init takes no ports that are in use, as they are when the cut came late in an `up`, or that have no link. Ports
    # that the daemon took while they were down are given back down.
    ports = seen.all_ports()
    free = f"longhaul down; for p in {ports}; do ip link set $p up; done; {LINKED.format(ports=ports)}"
    said = machine.sh(f"{free}; longhaul init --force {FILE} --hub hub {rtts} && cat {FILE}")
    for kind in MODELS:
        hub, site = seen.pair(kind).split()
        pair = f"ports: {{hub: {hub}, site: {site}}}"
        seen.row(kind, "init: pairs its ports", f"{kind}:" in said.out and pair in said.out, pair, said.s)
    hosts = "".join(f"s/^  {kind}:/  {kind}:\\n    host: m{number}/;" for number, kind in enumerate(MODELS, 1))
    machine.sh(f"sed -i 's/^subnet/hub_host: m0\\nsubnet/; s/on_drift: report/on_drift: restore/; {hosts}' {FILE}")
    said = machine.sh(f"longhaul up {FILE} && longhaul status >/dev/null")
    seen.row("", "up", said.code == 0, last(said.out), said.s)


def verified(machine: Machine, seen: Seen) -> None:
    """The certificate between the hosts over SSH, with one CPU.

    The cable of a NIC with several queues passes frames in this machine's time, not in the guest's: an echo may be late
    there, so such a lane is measured up to MOST_TRIES times.
    """
    machine.sh(BACK)
    said = machine.sh(EXACT)
    for kind in MODELS:
        text, tries = _certified(said, kind), 1
        while kind in QUEUES and tries < MOST_TRIES and not text.endswith(" ok"):
            text, tries = _certified(machine.sh(EXACT), kind), tries + 1
        tried = f" (measured {tries} times)" if tries > 1 else ""
        seen.row(kind, "verify: min, median, p99 within 1 ms", text.endswith(" ok"), text + tried, said.s)


def _certified(said: Answer, kind: str) -> str:
    """The line of the certificate between the hub and that site."""
    rows = [text.split() for text in said.out.splitlines() if text.split()[:2] == ["hub", kind]]
    return " ".join(rows[0]) if rows else last(said.out)


def changed(machine: Machine, seen: Seen) -> None:
    """A new RTT under traffic, and back."""
    act = f"longhaul set --all --rtt {OTHER_MS}ms"
    said = machine.sh(f"{traffic(MODELS)} sleep 1; {act}; wait; {of_each(MODELS, pinged)}")
    for kind, text in by_kind(said).items():
        most = re.search(r"= [\d.]+/[\d.]+/([\d.]+)/", text)
        is_so = f"{PINGS} received" in text and most is not None and float(most[1]) > OTHER_MS
        seen.row(kind, "set under traffic: loses nothing", is_so, f"{loss(text)}; {last(text)}", said.s)
    machine.sh(f"longhaul set --all --rtt {RTT_MS}ms")


def tuned(machine: Machine, seen: Seen) -> None:
    """Interrupts go to the chosen cores and back."""
    look = of_each(MODELS, lambda kind: STEERED.format(ports=seen.pair(kind)))
    before = by_kind(machine.sh(look))
    said = machine.sh(f"longhaul tune {seen.all_ports()} >/tmp/tune 2>&1; echo exit $?; {look}")
    is_tuned, after = "exit 0" in said.out, by_kind(said)
    restored = by_kind(machine.sh(f"longhaul tune --restore >/dev/null 2>&1; {look}"))
    for kind in MODELS:
        moved = sum(one != other for one, other in zip(before[kind].split("\n"), after[kind].split("\n"), strict=False))
        is_back = restored[kind] == before[kind]
        text = f"{moved} settings changed, {'all' if is_back else 'not'} restored"
        seen.row(kind, "tune, tune --restore", is_tuned and moved > 0 and is_back, text, said.s)


def swept(machine: Machine, seen: Seen) -> None:
    """One cell of each lane over SSH, to its end."""
    axes = f"--lane {','.join(MODELS)} --tcp-profile default --rate 20Mbit --duration 4s --repeats 1"
    sweep = f"longhaul sweep {axes} --runs {SWEEPS} >/tmp/sweep 2>&1"
    said = machine.sh(f"{sweep}; echo exit $?; longhaul status >/dev/null; echo $?")
    table = machine.sh(f"cat {SWEEPS}/*/table.csv")
    cells = {row["lane"]: row for row in csv.DictReader(table.out.splitlines())}
    for kind in MODELS:
        cell = cells.get(kind, {})
        text = f"{float(cell['steady_gbit_per_s']) * 1e3:.1f} Mbit/s {cell['limiter']}" if cell else last(said.out)
        seen.row(kind, "sweep over SSH: one cell at 20 Mbit/s", bool(cell) and said.out == "exit 0\n0", text, said.s)


def unbound(machine: Machine, seen: Seen) -> None:
    """The drivers are unbound from some site ports and bound again, while other lanes work."""
    kinds = list(MODELS)
    each = "while read d b; do echo $d >$b/{act}; done </tmp/bound"
    for some, others in ((kinds[:3], kinds[3:]), (kinds[3:], kinds[:3])):
        find = f"{DEVICES.format(ports=seen.site_ports(some))} >/tmp/bound"
        act = f"{traffic(others)} sleep 0.5; {each.format(act='unbind')}; sleep 1"
        said = machine.sh(f"{find}; {act}; longhaul status; echo exit $?; wait")
        tells(seen, said, some, "driver unbound: status tells")
        for kind, text in by_kind(machine.sh(of_each(others, pinged))).items():
            seen.row(kind, "other drivers unbound: loses nothing", f"{PINGS} received" in text, loss(text), 0)
        machine.sh(f"{each.format(act='bind')}; udevadm settle")
        returns(machine, seen, some, "driver bound: the lane is back")


def unplugged(machine: Machine, seen: Seen) -> None:
    """The NICs of the site ports are taken out and put in again."""
    for kind in MODELS:
        machine.unplug(kind, "site")
    tells(seen, machine.sh("sleep 1; longhaul status; echo exit $?"), MODELS, "NIC unplugged: status tells")
    for kind in MODELS:
        machine.plug(kind, "site")
    there = "until [ -e /sys/class/net/$p ]; do sleep 0.1; done"
    machine.sh(f"for p in {seen.site_ports(MODELS)}; do {there}; done; udevadm settle")
    returns(machine, seen, MODELS, "NIC plugged: the lane is back")


def tells(seen: Seen, said: Answer, kinds: Iterable[str], what: str) -> None:
    """A status names each of these lanes."""
    for kind in kinds:
        text = told_of(said, kind)
        seen.row(kind, what, "exit 0" not in said.out and kind in text, text, said.s)


def returns(machine: Machine, seen: Seen, kinds: Iterable[str], what: str) -> None:
    """The lanes are back by the daemon alone, and answer with their RTT."""
    said = machine.sh(f"{BACK} >/dev/null; echo exit $?; {of_each(kinds, echo)}")
    for kind, text in by_kind(said).items():
        is_so = "exit 0" in said.out and " 0% packet loss" in text
        seen.row(kind, what, is_so, f"{loss(text)} {rtt(text)}", said.s)


def returned(machine: Machine, seen: Seen) -> None:
    """Down gives the ports back as they were found; then the lanes are up again."""
    found = seen.found
    for kind in MODELS:
        # Nobody has brought up the NIC that was plugged.
        found = re.sub(rf"(?m)^({seen.ports[kind, 'site']}: <.*),UP,LOWER_UP(>.* state )UP", r"\1\2DOWN", found)
    given_back(machine, found, seen, "down: the ports are as they were found", "longhaul down >/tmp/down 2>&1")
    machine.sh(f"longhaul up {FILE}")


def given_back(machine: Machine, found: str, seen: Seen, what: str, act: str = "true") -> None:
    """After `act` the ports are as they were found."""
    said = machine.sh(f"{act}; echo exit $?; {AS_FOUND.format(ports=seen.all_ports())}")
    code, _, after = said.out.partition("\n")
    wrong = sorted(set(after.splitlines()) ^ set(found.splitlines()))
    seen.row("", what, code == "exit 0" and not wrong, f"{code} {wrong[:4]}", said.s)


def rebooted(machine: Machine, seen: Seen) -> None:
    """The service brings the lanes back after systemd's reboot."""
    before, began = machine.boot, time.monotonic()
    machine.reboot()
    seen.row("", "reboot", machine.boot != before, f"{time.monotonic() - began:.0f} s of this machine's time", 0)
    back(machine, seen)


def back(machine: Machine, seen: Seen) -> None:
    """All lanes are there, by the service alone."""
    returns(machine, seen, MODELS, "after the boot the lane is back")


def whole(machine: Machine, seen: Seen) -> None:
    """After a cut in a change, what is asked for is the old or the new, and the kernel has it."""
    said = machine.sh(BACK)
    lanes = [kind for kind in MODELS if re.search(rf"^{kind} +({RTT_MS}|{OTHER_MS})ms ", said.out, re.MULTILINE)]
    is_so = (said.code == 0 and len(lanes) in (0, len(MODELS))) or "nothing is up" in said.out
    rtts = re.findall(rf"^(?:{'|'.join(MODELS)}) +(\d+ms)", said.out, re.MULTILINE)
    told = f"exit {said.code}, {rtts or last(said.out)}"
    seen.row("", "intent is the old or the new, none half", is_so, told, said.s)
    if lanes:
        back(machine, seen)
    else:
        linked = LINKED.format(ports=seen.all_ports())
        given_back(machine, seen.found, seen, "nothing is up: the ports are as they were found", linked)


def cut_in(command: str, part: float) -> Life:
    """The power is cut under traffic when this part of a command's time has passed, as the command took before."""

    def life(machine: Machine, seen: Seen) -> None:
        before, act = COMMANDS[command]
        under_traffic = f"{traffic(MODELS)} {act} >/dev/null 2>&1"
        machine.sh(before)
        took_s = machine.sh(under_traffic).s
        machine.sh(before)
        machine.sh(f"{under_traffic} & sleep {took_s * part:.3f}")
        cut(machine, seen, f"after {part:.0%} of {command}, which takes {took_s:.2f} s")

    life.__name__ = f"cut_in_{command}"
    return life


def cut(machine: Machine, seen: Seen, when: str) -> None:
    machine.cut()
    seen.row("", f"power cut {when}", True, "QEMU killed", 0)


def gone(machine: Machine, seen: Seen) -> None:
    """At last the package is removed: nothing of it is left on the ports."""
    said = machine.sh("dpkg --remove longhaul 2>&1 | tail -1; ip -br link; tc qdisc; ls /run/longhaul 2>/dev/null")
    clean = not re.search(r"\blh-|netem|longhaul\.", said.out)
    seen.row("", "the .deb removed: the ports are given back", clean, said.out.splitlines()[0], said.s)


def of_each(kinds: Iterable[str], script: Callable[[str], str]) -> str:
    """A shell script that runs the script of each kind; `by_kind` separates what it prints."""
    return "; ".join(f"echo '== {kind}'; {script(kind)}" for kind in kinds)


def by_kind(said: Answer) -> dict[str, str]:
    """What a script of `of_each` printed, for each kind."""
    parts = (part.partition("\n") for part in f"\n{said.out}".split("\n== ")[1:])
    return {kind: text.strip() for kind, _, text in parts}


def traffic(kinds: Iterable[str]) -> str:
    """Pings through these lanes in the background; `pinged` shows what came of each."""
    return " ".join(f"{ping(kind)} -i 0.01 -c {PINGS} >/tmp/ping-{kind} 2>&1 &" for kind in kinds)


def pinged(kind: str) -> str:
    """A script that shows the end of the `traffic` through a lane."""
    return f"cat /tmp/ping-{kind}"


def echo(kind: str) -> str:
    """A script of some echoes through the lane, after one that finds the neighbour."""
    return f"{ping(kind)} -c 2 >/dev/null; {ping(kind)} -i 0.2 -c 5"


def ping(kind: str) -> str:
    """The hub's host pings the site's."""
    return f"ip netns exec m0 ping -W 3 -q 10.77.0.{list(MODELS).index(kind) + 2}"


def loss(text: str) -> str:
    found = re.search(r"[\d.]+% packet loss", text)
    return found[0] if found else last(text)


def rtt(text: str) -> str:
    found = re.search(r"= ([\d.]+/[\d.]+/[\d.]+)/", text)
    return f"{found[1]} ms" if found else ""


def told_of(said: Answer, kind: str) -> str:
    """The first sentence of a status about the lane, or its row with a queue that is gone."""
    lines = [text for text in said.out.splitlines() if f" {kind}: " in text or re.match(rf"{kind} .* gone ", text)]
    return (lines or [last(said.out)])[0].strip()


def last(text: str) -> str:
    return text.splitlines()[-1] if text else ""
