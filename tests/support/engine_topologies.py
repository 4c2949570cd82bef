"""Topologies through either datapath, on a machine on paper."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Buffer, Impairment
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.state import Link

MS = 10**6
FAT = Impairment(delay_ns=125_000_001, rate_bps=10_000_000_000)
LOSSY = Impairment(delay_ns=300 * MS, jitter_ns=5, loss_p32=42, rate_bps=50_000_000, buffer=Buffer(packets=64))
LANES = (Lane("japan", FAT, LOSSY), Lane("england", LOSSY, FAT))
REAL = Lane("japan", FAT, FAT, ports=Ports("nic0", "nic1"))
TOPOLOGIES = [
    Topology("empty", "hub"),
    Topology("kernel", "hub", LANES, datapath="netem"),
    Topology("engine", "hub", LANES, datapath="wire"),
    Topology("other-numbers", "hub", (LANES[0].with_rtt(7 * MS), LANES[1]), datapath="wire"),
    Topology("passing", "hub", LANES[:1], datapath="wire", on_failure="pass"),
    Topology("jumbo", "hub", tuple(replace(lane, mtu=9000) for lane in LANES), datapath="wire"),
    Topology("real", "hub", (REAL,), datapath="wire"),
    Topology("real-kernel", "hub", (REAL,), datapath="netem"),
]


def machine(**known: bool) -> FakeKernel:
    """Two NICs, nic1 up."""
    links = {f"nic{n}": Link(mtu=1500, up=n == 1, ipv6=True, addrgen=0) for n in range(2)}
    return FakeKernel(links, nf_call=(1, 1, 0), **known)  # type: ignore[arg-type]
