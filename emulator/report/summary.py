"""A run in a few sentences: what was measured, how reliable it is, and the results. Pure text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from emulator import units
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.report.tables import Table, label, several_lanes


def sentences(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> list[str]:
    """Sentences about the whole run, then one about each column."""
    cells = [found[spec.id] for spec in specs if spec.id in found]
    if not cells:
        return ["Nothing has been measured yet."]
    columns = dict.fromkeys(cell.spec.column for cell in cells)
    return [_measured(specs, cells), _dropped(cells), _rtt(cells), *(_column(name, cells) for name in columns)]


def _measured(specs: Sequence[CellSpec], cells: Sequence[CellResult]) -> str:
    invalid = sum(bool(cell.judgement.invalid) for cell in cells)
    least, most = (choose(len(cell.repeats) for cell in cells) for choose in (min, max))
    often = "once" if most == 1 else f"{most} times" if least == most else f"{least} to {most} times"
    said = f"{len(cells)} of {len(specs)} cells were measured, each {often}; {invalid or 'none'} of them invalid."
    widths = [cell.half_width_share for cell in cells if cell.steady_bytes_per_s]
    if most > 1 and (known := [width for width in widths if math.isfinite(width)]):
        said += f" Repeated means are known to ±{max(known):.1%} or better at 99 % confidence."
    return said


def _dropped(cells: Sequence[CellResult]) -> str:
    by_limit = sum(cell.queues.drops_limit or 0 for cell in cells)
    unknown = sum(cell.queues.drops_limit is None for cell in cells)
    said = f"The emulator's own limit dropped {by_limit or 'no'} packets"
    return f"{said}; it is unknown in {unknown} of {len(cells)} cells, which have loss." if unknown else f"{said}."


def _rtt(cells: Sequence[CellResult]) -> str:
    worst = max(abs(cell.delays.rtt_ns - cell.spec.lane.rtt_ns) for cell in cells)
    return f"The measured RTT of every cell is within {worst / 1000:.1f} us of the requested one."


def _column(name: str, cells: Sequence[CellResult]) -> str:
    inside = sorted((c for c in cells if c.spec.column == name), key=lambda c: c.spec.lane.rtt_ns)
    kinds = Counter(cell.judgement.kind for cell in inside).most_common()
    limits = ", ".join(f"{kind} ({number})" if len(kinds) > 1 else kind for kind, number in kinds)
    throughputs = [units.throughput_text(cell.steady_bytes_per_s) for cell in inside]
    rtts = [units.format_duration(cell.spec.lane.rtt_ns) for cell in inside]
    ends = [f"{throughput} at {rtt}" for throughput, rtt in zip(throughputs, rtts, strict=True)]
    reach = ends[0] if len(ends) == 1 else f"from {ends[0]} to {ends[-1]}"
    return f"{name}: {reach}; limited by {limits}."


CERTIFICATE = ("RTT asked", "measured", "outbound asked", "outbound", "inbound asked", "inbound")


def certificate(specs: Sequence[CellSpec], found: Mapping[str, CellResult]) -> Table:
    """Every RTT as requested and as measured, and each direction where irtt could separate them."""
    rows: dict[str, tuple[str, ...]] = {}
    for cell in (found[spec.id] for spec in specs if spec.id in found):
        lane, (there, back) = cell.spec.lane, cell.ways_ns
        asked = (lane.outbound.delay_ns, lane.inbound.delay_ns)
        ways = [text for pair in zip(asked, (there, back), strict=True) for text in map(_ms, pair)]
        name = label(cell.spec, several_lanes(specs))
        rows.setdefault(name, (name, _ms(cell.delays.rtt_ns), *ways))
    return Table("RTT asked against measured, idle, each lane and RTT once", CERTIFICATE, tuple(rows.values()))


def _ms(value_ns: int | None) -> str:
    return "-" if value_ns is None else f"{value_ns / 1e6:.3f} ms"
