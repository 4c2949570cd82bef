"""One cell, executed where it is: bring its lane up, put the profile on, ping, run iperf3, watch, judge.

`python3 -m emulator.cell SPEC` takes the spec as JSON and prints the result as JSON; the lab runs it so.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from emulator import analysis
from emulator.analysis import NS
from emulator.errors import LonghaulError, MeasureError, RefusedError
from emulator.hosts import profiles, reach
from emulator.hosts.host import Host
from emulator.measure import clock, iperf3, nstat, ping, ss
from emulator.measure.process import Running
from emulator.results import CellResult, CellSpec
from emulator.verdict import Evidence, invalid_reasons, judge

if TYPE_CHECKING:
    from emulator.appliance import Appliance
    from emulator.status import DirectionCounters

LOOKS = 16
INTERVALS = 50
PING_COUNT = 3
STREAMS_START_ROUND_TRIPS = 5
ODD_PHASE = 0.618
"""Looks at odd phases of the round trip see all of a window that breathes once a round trip."""
_POLL_S = 0.001
_LISTEN_TIMEOUT_S = 10.0
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Measured:
    """The raw observations of one cell."""

    rtt_ns: int
    run: iperf3.Run
    seen: ss.Seen
    drops: tuple[int | None, int, int | None]
    counters: dict[str, int]


def execute(spec: CellSpec, appliance: Appliance) -> CellResult:
    """Bring the cell's lane up on this machine, measure, and take it down again.

    Raises RefusedError when a topology is up already, MeasureError, and whatever bringing up raises.
    """
    with reach.reached(spec.topology) as hosts, _lane_up(spec, appliance):
        hub, site = hosts[spec.topology.hub], hosts[spec.lane.name]
        with profiles.applied(spec.profile, hub, site):
            return conclude(spec, _measure(spec, appliance, hub, site), os.uname().release)


@contextmanager
def _lane_up(spec: CellSpec, appliance: Appliance) -> Iterator[None]:
    """The cell's lane for the time of a block: alone, or as a change to the topology that holds its ports already."""
    present, lane = appliance.topology(), spec.lane
    if present is None:
        appliance.up(spec.topology)
        try:
            yield
        finally:
            appliance.down()
        return
    if lane.ports is None or lane.name not in present.sites or present.lane(lane.name).ports != lane.ports:
        raise RefusedError(f"{present.name} is up here: take it down first (longhaul down), or sweep with --in-lab")
    appliance.up(replace(present.with_lane(lane), seed=spec.topology.seed))
    try:
        yield
    finally:
        appliance.up(present)


def _measure(spec: CellSpec, appliance: Appliance, hub: Host, site: Host) -> Measured:
    address = str(spec.topology.address(site.name).ip)
    # What the kernel remembers of earlier connections to the site would shorten the slow start.
    hub.run(["ip", "tcp_metrics", "flush", address], _TIMEOUT_S, as_root=True)
    echo = hub.run(ping.argv(address, PING_COUNT, _precise(hub)), ping.longest_s(PING_COUNT, spec.lane.rtt_ns))
    before, drops_before = _counters(hub, site), appliance.counters()[spec.lane.name].outbound
    with site.start(iperf3.server_argv(interval_s(spec))) as server:
        _await_listening(site, server)
        with hub.start(_client_argv(spec, address)) as client:
            looks = _watch(spec, hub, address)
            run = iperf3.parse(client.wait(iperf3.longest_s(spec.duration_s, spec.lane.rtt_ns)).stdout)
    drops = _increase(drops_before, appliance.counters()[spec.lane.name].outbound)
    counters = nstat.increase(before, _counters(hub, site))
    return Measured(min(ping.parse(echo.stdout).rtts_ns), run, ss.summarize(looks), drops, counters)


def _precise(host: Host) -> bool:
    return host.run(ping.precise_argv(), _TIMEOUT_S).exit_code == 0


def _counters(hub: Host, site: Host) -> dict[str, int]:
    ends = [host.counters() for host in (hub, site)]
    return {name: sum(end[name] for end in ends) for name in nstat.WATCHED}


def _increase(before: DirectionCounters, after: DirectionCounters) -> tuple[int | None, int, int | None]:
    """Packets dropped in between: by the emulator's limit, by the full buffer, by the loss asked for."""

    def grown(one: int | None, other: int | None) -> int | None:
        return None if one is None or other is None else other - one

    buffer = after.drops_buffer - before.drops_buffer
    return (
        grown(before.drops_limit, after.drops_limit),
        buffer,
        grown(before.drops_loss, after.drops_loss),
    )


def _await_listening(site: Host, server: Running) -> None:
    deadline_s = time.monotonic() + _LISTEN_TIMEOUT_S
    while not site.is_listening(iperf3.PORT):
        if not server.running() or time.monotonic() > deadline_s:
            raise MeasureError(f"iperf3 -s in {site.name} does not listen on port {iperf3.PORT}")
        time.sleep(_POLL_S)


def interval_s(spec: CellSpec) -> float:
    """How often the receiver notes what arrived: fifty times, every 0.1 to 1 s."""
    return max(0.1, min(1.0, round(spec.duration_s / INTERVALS, 1)))


def _client_argv(spec: CellSpec, address: str) -> list[str]:
    algorithm, expected = spec.congestion_control, spec.expected_bytes_per_s
    return iperf3.client_argv(address, spec.duration_s, spec.streams, algorithm, expected, interval_s(spec))


def look_interval_s(duration_s: int, rtt_ns: int) -> float:
    """The pause between two looks: they fill the last half of the run, each at another phase of the round trip."""
    pause_s, rtt_s = duration_s / 2 / (LOOKS + 1), rtt_ns / NS
    return (pause_s // rtt_s + ODD_PHASE) * rtt_s if rtt_s and rtt_s <= pause_s else pause_s


def _watch(spec: CellSpec, hub: Host, address: str) -> list[list[ss.Socket]]:
    """Look at the data streams over the last half of the run."""
    time.sleep(spec.duration_s / 2 + STREAMS_START_ROUND_TRIPS * spec.lane.rtt_ns / NS)
    looks = []
    for _ in range(LOOKS):
        sockets = ss.parse(hub.run(ss.argv(address, iperf3.PORT), _TIMEOUT_S).checked().stdout)
        # One connection more than streams: the control connection, which sends least.
        data = sorted(sockets, key=lambda socket: socket.bytes_sent)[1:]
        if len(data) == spec.streams:
            looks.append(sorted(data, key=lambda socket: socket.local))
        time.sleep(look_interval_s(spec.duration_s, spec.lane.rtt_ns))
    return looks


def conclude(spec: CellSpec, measured: Measured, kernel: str) -> CellResult:
    """The figures, the prediction, the verdict and the objections that follow from the observations."""
    path, run, seen = spec.path, measured.run, measured.seen
    steady = analysis.steady(run.intervals)
    prediction = analysis.predict(path, seen.in_flight_bytes, seen.rtt_ns)
    drops_limit, drops_buffer, drops_loss = measured.drops
    evidence = Evidence(
        steady_bytes_per_s=steady.bytes_per_s,
        settled=steady.settled,
        rwnd_share=seen.rwnd_share,
        sndbuf_share=seen.sndbuf_share,
        peer_window_bytes=seen.peer_window_bytes,
        in_flight_bytes=seen.in_flight_bytes,
        most_in_flight_bytes=seen.most_in_flight_bytes,
        retransmits=run.retransmits,
        drops_limit=drops_limit,
        drops_buffer=drops_buffer,
        memory_pressures=measured.counters["TcpExtTCPMemoryPressures"],
        rtt_before_ns=measured.rtt_ns,
        rtt_tolerance_ns=clock.rtt_tolerance_ns() + spec.lane.outbound.jitter_ns + spec.lane.inbound.jitter_ns,
    )
    verdict = judge(path, evidence)
    return CellResult(
        spec=spec,
        rtt_ns=measured.rtt_ns,
        steady_bytes_per_s=steady.bytes_per_s,
        steady_from_s=steady.from_s,
        settled=steady.settled,
        mean_bytes_per_s=run.received_bytes / run.received_s,
        first_10s_bytes_per_s=analysis.mean_until(run.intervals, 10),
        predicted_bytes_per_s=prediction.bytes_per_s,
        predicted_limit=prediction.limit,
        limiter=verdict.limiter,
        evidence=verdict.evidence,
        invalid=tuple(invalid_reasons(path, evidence)),
        window_bytes=seen.in_flight_bytes,
        peer_window_bytes=seen.peer_window_bytes,
        send_buffer_bytes=seen.send_buffer_bytes,
        rwnd_share=seen.rwnd_share,
        sndbuf_share=seen.sndbuf_share,
        loaded_rtt_ns=seen.rtt_ns,
        retransmits=run.retransmits,
        sent_bytes=run.sent_bytes,
        received_bytes=run.received_bytes,
        drops_limit=drops_limit,
        drops_buffer=drops_buffer,
        drops_loss=drops_loss,
        counters=measured.counters,
        sender_cpu_percent=run.sender_cpu_percent,
        receiver_cpu_percent=run.receiver_cpu_percent,
        kernel=kernel,
        tool=run.version,
        notes=tuple(profiles.notes(spec.profile)),
        intervals=run.intervals,
    )


def main(argv: list[str]) -> int:
    """Execute the spec given as JSON; print the result, or the failure, as one JSON document."""
    from emulator.appliance import local

    try:
        result = execute(CellSpec.from_json(json.loads(argv[0])), local())
    except LonghaulError as error:
        print(json.dumps({"error": str(error), "kind": type(error).__name__}))  # noqa: T201
        return error.exit_code
    print(json.dumps(result.to_json()))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
