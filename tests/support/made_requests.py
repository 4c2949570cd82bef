"""Made-up reports of the request program, for tests without a lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from emulator.analysis import request_verdict
from emulator.analysis.observed import Delays, MachineUse, Queues
from emulator.analysis.request_figures import RequestFigures
from emulator.analysis.request_verdict import RequestEvidence
from emulator.experiment.requests_result import RequestsResult, paths_of
from emulator.hosts.requests.wire import DurationCounts
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.model.request_load import RequestLoad
from support.made_results import cell_spec

MS = 10**6
NOTHING_SENT_AGAIN = {"retransmits": 0, "busy_us": 1000, "rwnd_limited_us": 0, "sndbuf_limited_us": 0}


def counted(values: Sequence[int]) -> dict[str, Any]:
    """What the program reports of these durations."""
    counts = DurationCounts()
    for value in values:
        counts.add(value)
    return counts.report()


def figures(times: Sequence[int] = (80 * MS,), **changes: Any) -> RequestFigures:
    """Figures of a measurement; `changes` replace what the program counted, by its own names."""
    client = {
        "python": "3.13.5",
        "answered": len(times),
        "unanswered": 0,
        "held": 0,
        "last_held": changes.pop("overloaded", False),
        "elapsed_ns": sum(times),
        **{name: counted(times) for name in ("times", "service")},
        "transfer": counted([0] * len(times)),
        "setup": counted([80 * MS]),
        "late": counted(changes.pop("late", [])),
        "cpu_s": 0.1,
        "wall_s": 10.0,
        "overhead_ns": 1000,
        "sockets": NOTHING_SENT_AGAIN,
        **changes,
    }
    return RequestFigures.of(client, {"cpu_s": 0.1, "sockets": changes.get("server", NOTHING_SENT_AGAIN)})


def evidence(load: RequestLoad | None = None, found: RequestFigures | None = None, **changes: Any) -> RequestEvidence:
    """What was observed of a sound cell: 12.5 requests a second at 80 ms."""
    queues = Queues(changes.pop("drops_limit", 0), changes.pop("drops_buffer", 0), 0)
    machine = MachineUse("6.12", {"TcpExtTCPMemoryPressures": changes.pop("memory_pressures", 0)}, 0.0)
    values: dict[str, Any] = {
        "memory_short": False,
        "rtt_before_ns": 80 * MS,
        "rtt_tolerance_ns": 10_000,
        "cached_metrics": 0,
        "drift": (),
        **changes,
    }
    sound = figures([80 * MS] * 125)
    return RequestEvidence(load or RequestLoad(), found or sound, queues=queues, machine=machine, **values)


def result(load: RequestLoad, rtt_ns: int = 80 * MS, times: Sequence[int] = (), **changes: Any) -> RequestsResult:
    """A sound cell over 1 Gbit/s: every place answers once a round trip, or in `times`."""
    spec = replace(cell_spec(rtt_ns), workload=RequestsWorkload(load))
    each = times or [rtt_ns + 1000] * 125 * load.places
    found = figures(each, elapsed_ns=sum(each) // load.places, **changes)
    seen = evidence(load, found, rtt_before_ns=rtt_ns)
    return RequestsResult(
        spec=spec,
        requests=found,
        queues=seen.queues,
        machine=seen.machine,
        delays=Delays(rtt_ns, None, None),
        judgement=request_verdict.judge(paths_of(spec), seen),
        notes=(),
        repeats=(found.per_s(load),),
    )
