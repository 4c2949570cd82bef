"""A star of 32 lanes: every pair of its 33 hosts has the round trip that was asked for."""

from __future__ import annotations

from emulator.control.appliance import Appliance
from emulator.experiment import rtt_certificate
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology

MS = 10**6
TOLERANCE_NS = 10_000
LANES = tuple(Lane(f"s{n:02}", *[Impairment(n * MS, rate_bps=10**9)] * 2) for n in range(1, 33))


def test_asked_is_measured_for_every_pair_of_a_star_of_32(appliance: Appliance) -> None:
    """Six minutes of echoes: long enough for all that runs beside them now and then, the lab's own init included."""
    appliance.up(topology := Topology("wide", "hub", LANES))
    pairs = list(rtt_certificate.measure(topology, 2, TOLERANCE_NS, at_once=1))
    assert len(pairs) == 33 * 32 // 2
    assert [pair for pair in pairs if not pair.passed] == []
