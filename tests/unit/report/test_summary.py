"""A run in sentences, and its certificate."""

from __future__ import annotations

from msgspec.structs import replace
from support.made_results import MIB, MS, cell_result, cell_spec, changed

from emulator.experiment.cell_spec import INBOUND
from emulator.report import summary


def test_a_run_in_sentences() -> None:
    specs = [cell_spec(rtt) for rtt in (2 * MS, 32 * MS, 346 * MS)]
    near, middle, _ = (cell_result(spec, mib * MIB) for spec, mib in zip(specs, (1140, 87.5, 8), strict=True))
    near = changed(near, kind="line", repeats=(1140.0 * MIB,) * 3)
    middle = changed(
        middle,
        delays=replace(middle.delays, rtt_ns=32 * MS + 1500),
        invalid=("because",),
        repeats=(87.4 * MIB, 87.5 * MIB, 87.6 * MIB),
    )
    assert summary.sentences(specs, {result.spec.id: result for result in (near, middle)}) == [
        "2 of 3 cells were measured, each 3 times; 1 of them invalid. "
        "Repeated means are known to ±0.7% or better at 99 % confidence.",
        "The emulator's own limit dropped no packets.",
        "The measured RTT of every cell is within 1.5 us of the requested one.",
        "default, 1 stream: from 1140 MiB/s (9.563 Gbit/s) at 2 ms to 87.5 MiB/s (0.734 Gbit/s) at 32 ms; "
        "limited by line (1), send buffer (1).",
    ]


def test_what_is_not_known_is_said() -> None:
    spec = cell_spec()
    assert summary.sentences([spec], {}) == ["Nothing has been measured yet."]
    lossy = changed(cell_result(spec), drops_limit=None)
    said = summary.sentences([spec], {spec.id: lossy})
    assert said[0] == "1 of 1 cells were measured, each once; none of them invalid."
    assert said[1] == "The emulator's own limit dropped no packets; it is unknown in 1 of 1 cells, which have loss."
    assert said[3] == "default, 1 stream: 87.5 MiB/s (0.734 Gbit/s) at 32 ms; limited by send buffer."


def test_the_certificate_has_each_rtt_once_and_each_way() -> None:
    specs = [cell_spec(32 * MS), cell_spec(32 * MS, streams=8), cell_spec(0)]
    found = {spec.id: cell_result(spec) for spec in specs}
    found[specs[2].id] = changed(found[specs[2].id], idle=None)
    assert summary.certificate(specs, found).rows == (
        ("32 ms", "32.000 ms", "16.000 ms", "16.000 ms", "16.000 ms", "16.000 ms"),
        ("0 ms", "0.000 ms", "0.000 ms", "-", "0.000 ms", "-"),
    )


def test_the_ways_are_the_lanes_and_not_the_streams() -> None:
    result = cell_result(replace(cell_spec(), direction=INBOUND))
    assert result.delays.idle
    result = changed(result, idle=replace(result.delays.idle, there_ns=1, back_ns=2))
    assert result.ways_ns == (2, 1)
