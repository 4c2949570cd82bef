"""A key of the table of impairments has an effect: whoever adds one must lower it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.lowered_keys import ignored, texts

from emulator import units
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.model.impairment_keys import KEYS, Key, key_of, named
from emulator.model.topology import Lane, Topology
from emulator.plan import desired_state
from emulator.plan.netem_lowering import LoweredLane, lower
from emulator.units import parse_duration_ns


def test_every_key_changes_what_the_kernel_is_told() -> None:
    assert ignored() == []


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_what_a_key_reads_it_writes_again(key: Key) -> None:
    for text in texts(key):
        fields = key.read(text)
        assert fields != key.rest
        assert key.read(str(key.write(fields))) == fields
    if key.at_rest is not None:
        assert key.read(str(key.at_rest)) == key.rest


def test_every_field_belongs_to_one_key() -> None:
    fields = [name for key in KEYS for name in key.fields]
    assert sorted(fields) == sorted(Impairment.__struct_fields__)
    assert key_of("ber_e15") is named("corrupt")
    with pytest.raises(KeyError):
        named("queue")


def test_a_lane_is_lowered_once_to_bring_it_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[str] = []

    def counted(lane: Lane, *, seed: int, has_seed: bool, smallest: int) -> LoweredLane:
        calls.append(lane.name)
        return lower(lane, seed=seed, has_seed=has_seed, smallest=smallest)

    monkeypatch.setattr(desired_state, "lower", counted)
    topology = Topology("t", "h", (Lane("a").with_rtt(8), Lane("b").with_rtt(8), Lane("c").with_rtt(8)))
    Appliance(FakeKernel(), tmp_path).up(topology)
    assert calls == ["a", "b", "c"]


def test_a_lane_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(text: str) -> int:
        calls.append(text)
        return parse_duration_ns(text)

    monkeypatch.setattr(units, "parse_duration_ns", counted)
    loader.loads("name: t\nhub: h\nlanes: {a: {rtt: 8ms}, b: {rtt: 9ms}}\n")
    assert calls == ["8ms", "9ms"]
