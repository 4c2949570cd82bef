"""Network cards made by hand: multi-queue veths whose far ends are hosts in namespaces of their own."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CARDS = 4
HOSTS = tuple(f"host{n}" for n in range(CARDS))
NOISE = re.compile("ifindex|link_index|carrier_changes|.*_timer|.*_id|designated_.*|root_.*|promiscuity_.*")


def sh(command: str) -> str:
    """What a shell command prints; it must succeed."""
    ran = subprocess.run(["sh", "-c", command], check=False, text=True, capture_output=True)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def mac(card: int) -> str:
    """The MAC address of nicN."""
    return f"02:00:00:00:00:0{card}"


@contextmanager
def cards(mtu: int = 1500) -> Iterator[None]:
    """nic0 to nic3, each a cable to eth0 of host0 to host3 (10.0.0.1 to .4). nic0 and nic1 have 4 TX queues, GRO on."""
    for n, host in enumerate(HOSTS):
        queues = 4 if n < 2 else 1
        ends = f"address {mac(n)} numtxqueues {queues} numrxqueues {queues} mtu {mtu}"
        sh(
            f"ip netns add {host}; ip link add nic{n} {ends} type veth peer name eth0 netns {host} mtu {mtu};"
            f"ip -n {host} link set lo up; ip -n {host} addr add 10.0.0.{n + 1}/24 dev eth0;"
            f"ip -n {host} link set eth0 up"
        )
    # Once up: an interface that never was has no queue at all yet, and nobody can make it so again.
    sh("".join(f"ip link set nic{n} up; ip link set nic{n} down;" for n in range(CARDS)))
    sh("ip link property add dev nic1 altname uplink; ip link set nic0 up; ip link set nic2 up arp off")
    sh("ethtool -K nic0 gro on; ethtool -K nic1 gro on")
    try:
        yield
    finally:
        sh("".join(f"ip link del nic{n}; ip netns del {host};" for n, host in enumerate(HOSTS)))


def ping_ms(host: str, address: str, options: str = "") -> float:
    """The shortest of three round trips, in ms."""
    said = sh(f"ip netns exec {host} ping -q -c 3 -i 2 {options} {address}")
    return float(said.split(" = ")[1].split("/")[0])


def oracle() -> list[Any]:
    """All that iproute2, ethtool and sysctl tell of this namespace, less what merely counts."""
    links = settled()
    names = sorted(link["ifname"] for link in links)
    return [
        sorted(map(str, plain(links))),
        sorted(map(str, plain(json.loads(sh("ip -d -j link show"))))),
        sorted(map(str, json.loads(sh("ip -j route show table all")))),
        sorted(map(str, plain(json.loads(sh("tc -j qdisc show"))))),
        sh("ls /run/netns"),
        sh("sysctl -a 2>/dev/null | grep -E 'bridge-nf-call|disable_ipv6|arp_' || true"),
        [sh(f"ethtool -k {name}") for name in names],
    ]


def settled() -> list[dict[str, Any]]:
    """All interfaces with their addresses, once no link that is up is asked for one of its own (RFC 4862, 5.4)."""
    time.sleep(3)  # of virtual time: link watch tells of a carrier up to a second late
    for _ in range(10):
        links: list[dict[str, Any]] = json.loads(sh("ip -d -j addr show"))
        up = [link for link in links if link["operstate"] == "UP"]
        if not any(address.get("tentative") for link in up for address in link["addr_info"]):
            return links
        time.sleep(1)
    raise AssertionError(f"an address stays tentative: {links}")


def plain(value: Any, noise: re.Pattern[str] = NOISE) -> Any:
    """Less what differs each time."""
    if isinstance(value, dict):
        return {key: plain(inner, noise) for key, inner in value.items() if not noise.fullmatch(key)}
    return [plain(inner, noise) for inner in value] if isinstance(value, list) else value
