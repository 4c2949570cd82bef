"""A lane is a wire: nothing of the box's own leaves it, what goes in comes out, and a frame fits or does not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from support.handmade_nics import HOSTS, cards, mac, sh

from emulator.control.appliance import Appliance
from emulator.kernel import netns
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Ports, Topology

ETH_P_ALL = 3
OUTGOING = 4
BOX = "192.0.2.1"
SLOW = Impairment(16_000_000)
LOSSY = Impairment(16_000_000, loss_p32=2**10)
PLAIN = Topology("plain", "hub", (Lane("near", SLOW, LOSSY, ports=Ports("nic0", "nic1")),))
SHARED = Topology(
    "shared",
    "hub",
    tuple(Lane(f"tag{tag}", SLOW, SLOW, ports=Ports("nic0", "nic1", tag)) for tag in (10, 20)),
)
LINK_LOCAL = {
    "LLDP": ("0180c200000e", "88cc" + "0207040200000000010404050165060200780000"),
    "LACP": ("0180c2000002", "8809" + "0101" + "00" * 108),
    "STP": ("0180c2000000", "0026" + "424203" + "00" * 35),
}


class Ear:
    """All that comes in at a host's eth0."""

    def __init__(self, host: str) -> None:
        with netns.inside(host):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self.socket.bind(("eth0", ETH_P_ALL))
        self.socket.setblocking(False)

    def heard(self) -> list[bytes]:
        """The frames since the last call, those that the host sent itself left out."""
        frames = []
        while True:
            try:
                frame, origin = self.socket.recvfrom(65536)
            except BlockingIOError:
                return frames
            if origin[2] != OUTGOING:
                frames.append(frame)


@contextmanager
def ears(*hosts: str) -> Iterator[list[Ear]]:
    with ExitStack() as stack:
        heard = [Ear(host) for host in hosts]
        for ear in heard:
            stack.callback(ear.socket.close)
        yield heard


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """Silent hosts, and a box with an address of its own, which answers ARP on every interface that lets it."""
    kernel = NetlinkKernel()
    with cards():
        for host in HOSTS:
            sh(f"ip netns exec {host} sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1; ip -n {host} link set eth0 arp off")
        sh(f"ip addr add {BOX}/32 dev lo; ip link set lo up; sysctl -qw net.ipv4.ip_forward=1")
        time.sleep(20)  # until the cards' own IPv6 has said all it has to say, before they are ours
        yield (appliance := Appliance(kernel, tmp_path))
        appliance.down()
        sh(f"ip addr del {BOX}/32 dev lo")
    kernel.close()


def arp_request(sender: int, tag: bytes = b"") -> bytes:
    """Who has the box's address? To all."""
    own = bytes.fromhex(mac(sender).replace(":", ""))
    body = bytes.fromhex("0001080006040001") + own + socket.inet_aton("192.0.2.9") + bytes(6) + socket.inet_aton(BOX)
    return b"\xff" * 6 + own + tag + b"\x08\x06" + body


@pytest.mark.parametrize("topology", [PLAIN, SHARED], ids=lambda t: t.name)
def test_nothing_of_the_boxs_own_leaves_a_port(appliance: Appliance, topology: Topology) -> None:
    with ears("host0", "host1") as (near, far):
        appliance.up(topology)
        time.sleep(60)
        assert [near.heard(), far.heard()] == [[], []]
        for tag in (b"", b"\x81\x00\x00\x0a"):
            near.socket.send(arp_request(0, tag))
            time.sleep(2)
            passes = bool(tag) == (topology is SHARED) or topology is PLAIN
            assert [len(near.heard()), len(far.heard())] == [0, int(passes)]


def test_a_box_that_is_no_wire_is_heard(appliance: Appliance) -> None:
    """The proof that the test above can fail: the same cards in a bridge made by hand answer and speak."""
    with ears("host0", "host1") as (near, far):
        sh("ip link add br0 type bridge; ip link set nic0 master br0; ip link set nic1 master br0")
        sh("ip link set br0 up; ip link set nic1 up")
        time.sleep(10)
        assert far.heard()
        near.heard()
        near.socket.send(arp_request(0))
        time.sleep(1)
        assert [frame for frame in near.heard() if frame[12:14] == b"\x08\x06"]
        sh("ip link del br0; ip link set nic1 down")


@pytest.mark.parametrize("kind", LINK_LOCAL)
def test_frames_that_no_bridge_passes_on_pass(appliance: Appliance, kind: str) -> None:
    target, body = LINK_LOCAL[kind]
    appliance.up(PLAIN)
    time.sleep(2)  # link watch tells the bridge of a carrier up to a second late
    with ears("host0", "host1") as (near, far):
        for one, other, sender in ((near, far, 0), (far, near, 1)):
            frame = bytes.fromhex(target + mac(sender).replace(":", "") + body)
            one.socket.send(frame)
            time.sleep(1)
            assert other.heard() == [frame]


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("tag", [None, 7], ids=["plain", "vlan"])
def test_a_full_frame_passes_and_none_above(tmp_path: Path, mtu: int, tag: int | None) -> None:
    kernel, pings = NetlinkKernel(), "ip netns exec host0 ping -q -c 1 -W 2 -M do"
    with cards(mtu):
        device, target = ("v7", "10.7.0.2") if tag else ("eth0", "10.0.0.2")
        for host, last in (("host0", 1), ("host1", 2)) if tag else ():
            sh(f"ip -n {host} link add link eth0 name v7 type vlan id 7; ip -n {host} addr add 10.7.0.{last}/24 dev v7")
            sh(f"ip -n {host} link set v7 up")
        appliance = Appliance(kernel, tmp_path)
        appliance.up(Topology("t", "hub", (Lane("near", SLOW, SLOW, ports=Ports("nic0", "nic1", tag), mtu=mtu),)))
        assert "1 received" in sh(f"{pings} -s {mtu - 28} {target}")
        assert "+1 errors" in sh(f"{pings} -s {mtu - 27} {target} || true")
        # A host that sends more than was agreed: Linux grants every frame the 4 bytes of a VLAN tag, and no byte more.
        for host in ("host0", "host1"):
            sh(f"ip -n {host} link set eth0 mtu {mtu + 5}; ip -n {host} link set {device} mtu {mtu + 5}")
        assert "0 received" in sh(f"{pings} -s {mtu - 28 + 5} {target} || true")
        appliance.down()
    kernel.close()
