"""The certificate: pings every pair of hosts and compares requested and measured RTT."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from emulator import __version__
from emulator.config import loader
from emulator.control.status_document import direction_document
from emulator.errors import MeasureError
from emulator.experiment import engine_lateness
from emulator.experiment.attempts import Attempts
from emulator.experiment.engine_lateness import Late
from emulator.experiment.impairment_test import Proof
from emulator.hosts import resolve
from emulator.hosts.host import Host
from emulator.hosts.tools import ping
from emulator.hosts.tools.process import Running
from emulator.hosts.tools.sample_packet import Packet, way
from emulator.model.flow_match import PROTOCOLS
from emulator.model.topology import Lane, Topology
from emulator.plan.netem_lowering import jitter_reach_ns

if TYPE_CHECKING:
    from emulator.control.status import LaneStatus, Status

FORMAT = 1
AT_ONCE = 8
"""Pairs pinged at the same time in real time: sshd allows ten sessions for each connection. In virtual time one pair
runs alone: waiting costs nothing there, and every clock reading of another program advances the clock by 768 ns."""

_TIMEOUT_S = 30.0


@dataclass(frozen=True)  # not a Struct: pydantic makes the answers of the web from it
class Pair:
    """The RTT between two hosts: requested, and the measured minimum, median and 99th percentile.

    `allowed_ns` is the allowed difference of each; on a path with loss, `lost` echoes are no failure.
    """

    one: str
    other: str
    asked_ns: int
    min_ns: int
    median_ns: int
    p99_ns: int
    lost: int
    lossy: bool
    allowed_ns: int

    @property
    def near(self) -> bool:
        """Whether minimum, median and 99th percentile are within tolerance."""
        return all(abs(ns - self.asked_ns) <= self.allowed_ns for ns in (self.min_ns, self.median_ns, self.p99_ns))

    @property
    def passed(self) -> bool:
        """Whether it is `near`, and no echo was lost without reason."""
        return self.near and (self.lossy or not self.lost)


@dataclass(frozen=True)
class PairReasons:
    """Why the RTT between two hosts is not as asked, in sentences."""

    one: str
    other: str
    why: tuple[str, ...]


@dataclass(frozen=True)
class Unanswered:
    """Two hosts between which no echo came back; `why` is ping's sentence."""

    one: str
    other: str
    asked_ns: int
    why: str


class Certificate(Struct, frozen=True):
    """The requested settings, what the kernel holds, the measurements, and the tools.

    `proofs` are the impairments' rows where they were measured, too; `reasons` say by pair why it is not as asked.
    """

    topology: Topology
    kernel: str
    version: str
    count: int
    tolerance_ns: int
    installed: tuple[dict[str, Any], ...]
    pairs: tuple[Pair, ...]
    datapath: str = "netem"
    late: tuple[Late, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()
    proofs: tuple[Proof, ...] = ()
    reasons: tuple[PairReasons, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every pair and impairment passed, and the machine was prompt enough for valid figures."""
        paths = not self.unanswered and all(pair.passed for pair in self.pairs)
        return paths and all(late.passed for late in self.late) and all(proof.row.passed for proof in self.proofs)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON; the topology as the YAML that brings it up again."""
        return {
            "format": FORMAT,
            "passed": self.passed,
            "version": self.version,
            "kernel": self.kernel,
            "datapath": self.datapath,
            "seed": self.topology.seed,
            "count": self.count,
            "tolerance_ns": self.tolerance_ns,
            "topology": loader.dumps(self.topology),
            "installed": list(self.installed),
            "lateness": [late.to_json() for late in self.late],
            "pairs": [{**asdict(pair), "passed": pair.passed} for pair in self.pairs],
            "unanswered": [asdict(pair) for pair in self.unanswered],
            "impairments": [proof.to_json() for proof in self.proofs],
            "reasons": [asdict(reasons) for reasons in self.reasons],
        }


def certificate(
    before: Status, after: Status, count: int, tolerance_ns: int, found: Sequence[Pair],
    unanswered: Sequence[Unanswered] = (), proofs: Sequence[Proof] = (), reasons: Sequence[PairReasons] = (),
) -> Certificate:  # fmt: skip
    """The certificate of the pairs of an active topology, from observations before and after the measurement."""
    assert before.topology
    return Certificate(
        before.topology, os.uname().release, __version__, count, tolerance_ns, installed(before.lanes), tuple(found),
        before.datapath, engine_lateness.between(before.lanes, after.lanes, tolerance_ns), tuple(unanswered),
        tuple(proofs), tuple(reasons),
    )  # fmt: skip


def pairs(topology: Topology, sites: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Every pair of hosts that reach one another; with `sites`, only pairs with one of them.

    The path between two sites leads through the hub, over both lanes. Raises InputError when there are no hosts.
    """
    found = [pair for group in resolve.groups(topology) for pair in combinations(group, 2)]
    return [pair for pair in found if not sites or set(pair) & set(sites)]


def measure(
    topology: Topology,
    count: int,
    tolerance_ns: int,
    at_once: int = AT_ONCE,
    wanted: Sequence[tuple[str, str]] | None = None,
    unanswered: Callable[[Unanswered], object] | None = None,
) -> Iterator[Pair]:
    """Ping these pairs of hosts, or all, several at once, and yield each when it is known.

    A pair without an answer goes to `unanswered`; without that it ends the measurement. Raises MeasureError,
    MissingError.
    """
    if wanted is None:
        wanted = pairs(topology)
    with resolve.reached(topology) as hosts:
        precise = {name: ping.is_precise(host) for name, host in hosts.items()}
        for start in range(0, len(wanted), at_once):
            batch = wanted[start : start + at_once]
            _warm_up(topology, hosts, batch)
            programs = [
                hosts[one].start(ping.argv(str(topology.address(other).ip), count, precise[one]))
                for one, other in batch
            ]
            try:
                for (one, other), program in zip(batch, programs, strict=True):
                    try:
                        found = _echoes(topology, one, other, program, count)
                    except MeasureError as error:
                        if unanswered is None:
                            raise
                        unanswered(Unanswered(one, other, asked_ns(topology, one, other), str(error)))
                        continue
                    yield judge(topology, one, other, found, tolerance_ns)
            finally:
                for program in programs:
                    program.terminate()


def _echoes(topology: Topology, one: str, other: str, program: Running, count: int) -> ping.Ping:
    """What a ping between two hosts found. Not tried again: a certificate that hid lost echoes would be wrong."""
    with Attempts().explained():
        try:
            done = program.wait(ping.longest_s(count, topology.rtt_ns(one, other)))
            return ping.parse(done.stdout or done.stderr)
        except MeasureError as error:
            raise MeasureError(f"{one} - {other}: {error}") from error


def _warm_up(topology: Topology, hosts: Mapping[str, Host], pairs: Sequence[tuple[str, str]]) -> None:
    programs = [hosts[one].start(ping.warm_up_argv(str(topology.address(other).ip))) for one, other in pairs]
    for program in programs:
        program.wait(_TIMEOUT_S)


def judge(topology: Topology, one: str, other: str, measured: ping.Ping, tolerance_ns: int) -> Pair:
    """Compare requested and measured RTT for the flows of the echoes; jitter on the path widens the tolerance.

    Of a lane that is off only the bottleneck is requested.
    """
    lanes = _path(topology, one, other)
    directions = [direction for lane in lanes for direction in (lane.outbound, lane.inbound)]
    rtts = sorted(measured.rtts_ns)
    return Pair(
        one=one,
        other=other,
        asked_ns=sum(lane.rtt_ns for lane in lanes),
        min_ns=rtts[0],
        median_ns=ping.quantile(rtts, 0.5),
        p99_ns=ping.quantile(rtts, 0.99),
        lost=measured.lost,
        lossy=any(d.mean_loss or d.corrupt_p32 or d.ber_e15 for d in directions),
        allowed_ns=tolerance_ns + sum(jitter_reach_ns(d) + (d.delay_ns if d.reorder_p32 else 0) for d in directions),
    )


def asked_ns(topology: Topology, one: str, other: str) -> int:
    """The RTT that is requested for echoes between two hosts."""
    return sum(lane.rtt_ns for lane in _path(topology, one, other))


def _path(topology: Topology, one: str, other: str) -> list[Lane]:
    """The lanes between two hosts, as an echo has them: with the settings of its flow."""
    ends = [(site, far) for site, far in ((one, other), (other, one)) if site != topology.hub]
    return [way(topology.lane(site).in_effect, _echo(topology, far, site)) for site, far in ends]


def _echo(topology: Topology, far: str, site: str) -> Packet:
    """An echo on the lane of a site; `far` is the host at its hub's end or beyond."""
    return Packet(topology.address(far).ip, topology.address(site).ip, PROTOCOLS["icmp"])


def installed(lanes: Sequence[LaneStatus]) -> tuple[dict[str, Any], ...]:
    """The kernel's state of each direction, as in the status."""
    reported = ((one.lane.name, direction_document(one.outbound), direction_document(one.inbound)) for one in lanes)
    return tuple({"lane": name, "outbound": outbound, "inbound": inbound} for name, outbound, inbound in reported)
