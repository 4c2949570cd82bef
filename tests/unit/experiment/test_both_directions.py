"""A cell whose data flows both ways at once: one result of two, its repeats, and its place in the tables."""

from __future__ import annotations

import csv
import io
import json

import pytest
from msgspec.structs import replace
from support.made_results import MIB, MS, cell_result, cell_spec, changed

from emulator.experiment.both_directions import joined
from emulator.experiment.cell_result import CellResult
from emulator.experiment.grid import with_bottleneck
from emulator.experiment.repeated_result import merged
from emulator.report import tables

BOTH = replace(cell_spec(), direction="both")


def both(outbound_mib: float, inbound_mib: float) -> CellResult:
    """Outbound held back by the send buffer, inbound by the line, both with an RTT that is not as set."""
    there, back = (
        changed(cell_result(way, mib * MIB), invalid=("the RTT was 33 ms",))
        for way, mib in zip(BOTH.ways, (outbound_mib, inbound_mib), strict=True)
    )
    there = changed(there, findings=("rtt-not-as-set: the RTT was 33 ms", "cpu: busy"))
    back = changed(back, findings=("rtt-not-as-set: the RTT was 33 ms",), kind="line", limiter="line", settled=False)
    return joined(BOTH, [there, back])


def test_the_slower_direction_is_the_cells_and_both_are_kept() -> None:
    result = both(90, 100)
    assert (result.spec, result.steady_bytes_per_s, result.judgement.kind) == (BOTH, 90 * MIB, "send buffer")
    assert [(way.direction, way.throughput.steady_bytes_per_s, way.judgement.kind) for way in result.ways] == [
        ("outbound", 90 * MIB, "send buffer"),
        ("inbound", 100 * MIB, "line"),
    ]
    assert result.judgement.limiter == "outbound: send buffer, 2.8 MiB in flight; inbound: line"
    assert result.judgement.evidence.startswith("outbound: the sender waited")
    assert result.judgement.advice.startswith("outbound: tcp_wmem max from")
    assert not result.throughput.settled
    assert (both(90, 80).judgement.kind, both(90, 80).judgement.evidence.partition(":")[0]) == ("line", "inbound")


def test_what_is_said_of_both_is_said_once() -> None:
    result = both(90, 100)
    assert result.judgement.invalid == ("the RTT was 33 ms",)
    assert result.judgement.findings == ("rtt-not-as-set: the RTT was 33 ms", "cpu: outbound: busy")


def test_repeats_are_merged_in_each_direction() -> None:
    result = merged([both(90, 100), both(80, 104), both(70, 96)])
    assert result.steady_bytes_per_s == pytest.approx(80 * MIB)
    assert [way.throughput.steady_bytes_per_s / MIB for way in result.ways] == pytest.approx([80, 100])


def test_it_survives_json() -> None:
    result = both(90, 100)
    assert CellResult.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_the_tables_show_both_directions() -> None:
    result = both(90, 100)
    (table,) = tables.details([BOTH], {BOTH.id: result})
    row = dict(zip(table.header, table.rows[0], strict=True))
    assert (table.title, BOTH.id) == ("default, 1 stream, both", "lane-32ms-default-1-both")
    assert (row["steady"], row["outbound"], row["inbound"]) == ("✗90.0 (0.755)", "90.0 (0.755)", "100.0 (0.839)")
    (line,) = csv.DictReader(io.StringIO(tables.csv_text([result.spec], {result.spec.id: result})))
    assert [line[f"{way}_bytes_per_s"] for way in tables.WAYS] == ["94371840", "104857600"]
    (alone,) = csv.DictReader(
        io.StringIO(tables.csv_text([cell_result().spec], {cell_result().spec.id: cell_result()}))
    )
    assert [alone[f"{way}_bytes_per_s"] for way in tables.WAYS] == ["91750400.0", ""]


def test_it_is_predicted_by_its_slower_direction() -> None:
    lane = cell_spec(10 * MS).lane
    slow = with_bottleneck(lane, 10**8)
    spec = replace(BOTH, topology=replace(BOTH.topology, lanes=(replace(lane, inbound=slow.inbound),)))
    assert spec.prediction == spec.ways[1].prediction
    assert spec.prediction.bytes_per_s < spec.ways[0].prediction.bytes_per_s
