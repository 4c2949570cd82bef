"""Results of programs: whose direction judges them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.made_programs import MIB, connection, result, row, run, runs, turns_row

from emulator.experiment.program_result import ProgramResult, busier_path
from emulator.model.loss_model import P32
from emulator.model.sweep_axes import INBOUND, OUTBOUND


@pytest.mark.parametrize(
    ("sent", "received", "direction", "rate_bps"),
    [
        (100, MIB, OUTBOUND, 10**9),
        (MIB, 100, OUTBOUND, 10**7),
        (100, MIB, INBOUND, 10**7),
        (MIB, 100, INBOUND, 10**9),
    ],
)
def test_a_program_is_judged_by_the_rate_of_the_direction_with_more_data(
    sent: int, received: int, direction: str, rate_bps: int
) -> None:
    """Outbound has 10 Mbit/s and loss, inbound 1 Gbit/s; `inbound` puts the client at the site."""
    program = runs(run(3000, connection(sent, received)))
    spec = result(row("", 80, program), "curl").spec
    lane = spec.lane
    slow = replace(lane.outbound, rate_bps=10**7, loss_p32=round(0.01 * P32))
    uneven = replace(spec.topology, lanes=(replace(lane, outbound=slow),))
    path = busier_path(replace(spec, topology=uneven, direction=direction), program)
    assert path.rate_bps == rate_bps
    assert path.loss == pytest.approx(0.01)


def test_a_result_reads_back() -> None:
    one = result(turns_row("", 80, 17), "redis")
    assert ProgramResult.from_json(one.to_json()) == one
