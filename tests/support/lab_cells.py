"""Cells for tests in the lab: a small lane, a short run, and somebody who spoils things in between."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from emulator.control.appliance import Appliance
from emulator.experiment import run_cell
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.results import Result
from emulator.hosts import tcp_profiles
from emulator.hosts.namespace import NamespaceHost
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.impairment import Buffer, Impairment
from emulator.model.loss_model import P32
from emulator.model.tcp_profile import Profile
from emulator.model.topology import Lane, Topology

MBIT, MS, KIB, MIB = 10**6, 10**6, 2**10, 2**20
SMALL = Profile("small", (4096, MIB, MIB), (4096, 64 * KIB, 512 * KIB))
"""Enough for the lanes here, and little to drain where a spoilt lane crawls."""
Spoil = Callable[[Appliance, CellSpec], None]
TCP_MEM = Path("/proc/sys/net/ipv4/tcp_mem")


def spec(
    rate_mbit: int = 10,
    rtt_ms: int = 20,
    profile: Profile | None = None,
    *,
    loss: float = 0.0,
    buffer: Buffer | None = None,
    aqm: str = "drop-tail",
    ecn: bool = False,
    streams: int = 1,
    cc: str | None = None,
    duration_s: int = 3,
    direction: str = "outbound",
) -> CellSpec:
    """One cell; the profile is `max` for the lane unless another is given."""
    way = Impairment(rate_bps=rate_mbit * MBIT, buffer=buffer, aqm=aqm, ecn=ecn, loss_p32=round(loss * P32))
    lane = Lane("far", way, way).with_rtt(rtt_ms * MS)
    chosen = profile or tcp_profiles.maximum(rate_mbit * MBIT, rtt_ms * MS)
    return CellSpec(Topology("cell", "near", (lane,)), chosen, streams, cc, duration_s, direction)


def measure(one: CellSpec, folder: Path, spoil: Spoil | None = None) -> CellResult:
    """The result of a cell of streams; `spoil` acts once everything is set up."""
    result = measure_any(one, folder, spoil)
    assert isinstance(result, CellResult)
    return result


def measure_any(one: CellSpec, folder: Path, spoil: Spoil | None = None) -> Result:
    """The same of a cell with any workload."""
    kernel = NetlinkKernel()
    appliance = Appliance(kernel, folder)
    try:
        appliance.up(one.topology)
        hub, site = NamespaceHost(one.topology.hub), NamespaceHost(one.lane.name)
        with tcp_profiles.applied(one.profile, hub, site):
            if spoil:
                spoil(appliance, one)
            measured = run_cell.MEASURES.get(one.workload.kind, run_cell.measure_streams)
            return measured(one, appliance, hub, site, ()).result
    finally:
        appliance.down()
        kernel.close()


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, text=True)


def port(appliance: Appliance) -> str:
    """Where the outbound direction is impaired."""
    return appliance.status().lanes[0].outbound.port


def netem(words: str) -> Spoil:
    """Somebody changes the outbound delay line by hand."""

    def spoil(appliance: Appliance, _: CellSpec) -> None:
        run("tc", "qdisc", "change", "dev", port(appliance), "root", "netem", *words.split())

    return spoil


def short_of_memory(pages: int) -> Spoil:
    """TCP may have so many pages, all connections together."""
    return lambda *_: TCP_MEM.write_text(f"{pages} {pages} {2 * pages}") and None
