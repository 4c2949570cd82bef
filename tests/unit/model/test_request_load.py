"""Loads of requests: every combination of the axes, their names, and what they refuse."""

from __future__ import annotations

import pytest

from emulator.model import request_load, sweep_axes
from emulator.model.request_load import RequestLoad
from emulator.model.sweep_axes import REQUEST_AXES


def test_every_axis_of_requests_sets_a_field() -> None:
    examples = {axis.key: sweep_axes.parse(axis.key, axis.examples[-1]) for axis in REQUEST_AXES}
    default = RequestLoad()
    for key, value in (examples | {"think": 10**9}).items():
        (load,) = request_load.loads({key: value if key == "count" else (value,)})
        assert sum(getattr(load, name) != getattr(default, name) for name in load.__struct_fields__) == 1, key


def test_all_combinations_and_their_names() -> None:
    found = list(request_load.loads({"connections": (1, 8), "answer": (1024, 2**20), "count": 7}))
    assert [(load.connections, load.answer_bytes, load.count) for load in found] == [
        (1, 1024, 7), (1, 2**20, 7), (8, 1024, 7), (8, 2**20, 7),
    ]  # fmt: skip
    assert [load.part for load in found] == [
        "c1-k1-256B-1KiB", "c1-k1-256B-1MiB", "c8-k1-256B-1KiB", "c8-k1-256B-1MiB",
    ]  # fmt: skip
    assert found[0].title == "1 connection, 256 B for 1 KiB"
    load = RequestLoad(8, 4, think_ns=10**9)
    assert (load.title, load.part) == (
        "8 connections, 4 in flight, 256 B for 1 KiB, think 1 s", "c8-k4-256B-1KiB-think1s",
    )  # fmt: skip
    assert RequestLoad(offered_per_s=0.5).part == "c1-k1-256B-1KiB-0.5ps"


def test_nobody_thinks_in_an_open_loop() -> None:
    with pytest.raises(ValueError, match="with an offered rate nobody thinks"):
        RequestLoad(think_ns=1, offered_per_s=1)


@pytest.mark.parametrize("text", ["0", "-1", "1e9", "2000000", "fast", "1,5", ""])
def test_an_offered_rate_is_a_number_above_zero(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number of requests a second above 0 and up to 1000000"):
        sweep_axes.parse("offered", text)


def test_a_fraction_of_a_request_a_second() -> None:
    assert sweep_axes.parse("offered", "0.5") == 0.5
