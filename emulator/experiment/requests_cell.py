"""Measures one cell whose workload is requests, over an active lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from emulator.analysis import request_verdict, tcp_path
from emulator.analysis.request_figures import RequestFigures
from emulator.analysis.request_verdict import RequestEvidence
from emulator.errors import MeasureError
from emulator.experiment import observe_cell
from emulator.experiment.attempts import Attempts
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.lane_watch import LaneWatch
from emulator.experiment.requests_result import RequestsResult, load_of, paths_of
from emulator.experiment.run_folder import Execution
from emulator.hosts import tcp_profiles
from emulator.hosts.host import Host
from emulator.hosts.requests import load as request_load
from emulator.hosts.requests.load import RequestReports, RequestTest
from emulator.hosts.tools import machine_facts
from emulator.model.sweep_axes import OUTBOUND

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance


def measure(spec: CellSpec, appliance: Appliance, hub: Host, site: Host, unset: tuple[str, ...] = ()) -> Execution:
    """Send the requests over an active lane, between prepared hosts. Raises MeasureError with what to do next."""
    attempts = Attempts()
    with attempts.explained():
        return _measure(spec, appliance, hub, site, unset, attempts)


def _measure(
    spec: CellSpec, appliance: Appliance, hub: Host, site: Host, unset: tuple[str, ...], attempts: Attempts
) -> Execution:
    client, server = (hub, site) if spec.direction == OUTBOUND else (site, hub)
    rtt_ns = observe_cell.idle_rtt_ns(spec, client, server, attempts)
    watch = LaneWatch(spec, appliance, hub, site, rtt_ns=rtt_ns, cached_metrics=observe_cell.cached(client))
    test = RequestTest(load_of(spec), spec.duration_s, spec.lane.rtt_ns, spec.congestion_control)
    reports = request_load.run(test, client, server, observe_cell.address(spec, server))
    lane = watch.ended()
    seen = RequestEvidence(
        **asdict(lane.evidence),
        load=test.load,
        figures=_figures(reports),
        initcwnd=spec.profile.initcwnd or tcp_path.INITCWND_SEGMENTS,
    )
    judgement = request_verdict.judge(paths_of(spec), seen, tuple(attempts.caveats))
    result = RequestsResult(
        spec=spec,
        requests=seen.figures,
        queues=seen.queues,
        machine=seen.machine,
        delays=lane.delays,
        judgement=replace(judgement, invalid=(*judgement.invalid, *lane.too_late)),
        notes=(*tcp_profiles.notes(spec.profile), *unset),
        repeats=(seen.per_s,),
    )
    raw = {"client": dict(reports.client), "server": dict(reports.server)}
    return Execution(result, machine_facts.beside(client, {spec.workload.kind: raw}))


def _figures(reports: RequestReports) -> RequestFigures:
    try:
        return RequestFigures.of(reports.client, reports.server)
    except (KeyError, TypeError, ValueError) as error:
        raise MeasureError(f"the request program's report cannot be read: {error!r}") from None
