"""Measures one cell whose workload is groups of flows, over an active lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from emulator.analysis import flow_figures, flow_verdict
from emulator.analysis.flow_figures import FlowFigures, FlowTimes
from emulator.analysis.flow_verdict import FlowEvidence
from emulator.errors import MeasureError
from emulator.experiment import further_sites, observe_cell
from emulator.experiment.attempts import Attempts
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.flows_result import FlowsResult, contest_of, path_of
from emulator.experiment.lane_watch import LaneWatch
from emulator.experiment.run_folder import Execution
from emulator.hosts import tcp_profiles
from emulator.hosts.flows import load as flow_load
from emulator.hosts.flows.load import FlowReports, FlowTest
from emulator.hosts.host import Host
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools import machine_facts
from emulator.model.sweep_axes import OUTBOUND

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance


def measure(spec: CellSpec, appliance: Appliance, hub: Host, site: Host, unset: tuple[str, ...] = ()) -> Execution:
    """Let the groups share an active lane, between prepared hosts. Raises MeasureError with what to do next."""
    attempts = Attempts()
    with attempts.explained():
        return _measure(spec, appliance, hub, site, unset, attempts)


def _measure(
    spec: CellSpec, appliance: Appliance, hub: Host, site: Host, unset: tuple[str, ...], attempts: Attempts
) -> Execution:
    sender, receiver = (hub, site) if spec.direction == OUTBOUND else (site, hub)
    contest, rtt_ns = contest_of(spec), observe_cell.idle_rtt_ns(spec, sender, receiver, attempts)
    senders = [_sender(spec, number, sender) for number in range(len(contest.groups))]
    rtts_ns = [
        rtt_ns if group.rtt_ns is None else observe_cell.idle_rtt_ns(spec, one, receiver, attempts, group.rtt_ns)
        for one, group in zip(senders, contest.groups, strict=True)
    ]
    watch = LaneWatch(spec, appliance, hub, site, rtt_ns=rtt_ns, cached_metrics=observe_cell.cached(sender))
    test = FlowTest(contest, spec.duration_s, contest.longest_rtt_ns(spec.lane.rtt_ns))
    reports = flow_load.run(test, senders, receiver, observe_cell.address(spec, receiver))
    lane = watch.ended()
    seen = FlowEvidence(
        **asdict(lane.evidence),
        contest=test.contest,
        figures=_figures(test, reports),
        duration_s=spec.duration_s,
        aqm=spec.impairment.aqm,
        rtts_ns=tuple(rtts_ns),
    )
    judgement = flow_verdict.judge(path_of(spec), seen, tuple(attempts.caveats))
    result = FlowsResult(
        spec=spec,
        flows=seen.figures,
        queues=seen.queues,
        machine=seen.machine,
        delays=lane.delays,
        judgement=replace(judgement, invalid=(*judgement.invalid, *lane.too_late)),
        notes=(*tcp_profiles.notes(spec.profile), *unset),
        repeats=(seen.figures.groups[0].bytes_per_s,),
    )
    raw = {"sender": dict(reports.sender), "receiver": dict(reports.receiver)}
    return Execution(result, machine_facts.beside(sender, {spec.workload.kind: raw}))


def _sender(spec: CellSpec, number: int, usual: Host) -> Host:
    """The host from which the group with this number sends: the lane's end, or a further site."""
    further = contest_of(spec).groups[number].rtt_ns is not None
    return NamespaceHost(further_sites.name_of(number)) if further else usual


def _figures(test: FlowTest, reports: FlowReports) -> FlowFigures:
    times = FlowTimes(test.interval_ns, test.intervals, test.rtt_ns)
    try:
        return flow_figures.of_reports(test.contest, times, reports.sender, reports.receiver)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise MeasureError(f"the flow program's report cannot be read: {error!r}") from None
