"""Workloads as JSON values."""

from __future__ import annotations

import pytest

from emulator.hosts.tools import workloads


def test_a_workload_is_a_value_in_json() -> None:
    assert workloads.to_json(workloads.STREAMS) == {"kind": "iperf3"}
    assert workloads.from_json({"kind": "iperf3"}) == workloads.STREAMS


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"kind": "carrier pigeon"}, "^there is no workload 'carrier pigeon': use flows, iperf3, program or requests$"),
        ({}, "^there is no workload 'None'"),
        ({"kind": "iperf3", "colour": 1}, "^Iperf3 has no colour$"),
    ],
)
def test_what_is_no_workload_is_refused(value: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        workloads.from_json(value)
