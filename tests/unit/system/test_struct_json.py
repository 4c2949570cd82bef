"""Dataclasses to JSON and back, exactly, and a clear no to anything else."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Network
from typing import Literal

import pytest
from msgspec import Struct
from msgspec.structs import replace
from support.folders import TOPOLOGIES

from emulator.config import loader
from emulator.model.impairment import Buffer, Impairment
from emulator.model.loss_model import FourState, GilbertElliott
from emulator.model.topology import Lane, Ports, Topology
from emulator.system.struct_json import from_plain, to_json, to_plain

FILES = sorted(TOPOLOGIES.glob("*.yaml"))
ODD = Topology(
    "odd",
    "hub",
    (
        Lane("a", Impairment(3, 1, 7, 800, Buffer(packets=4)), Impairment(2), Ports("eth0", "eth1"), 9000, 8, off=True),
        Lane("b", Impairment(rate_bps=10**10, buffer=Buffer(ns=5))),
        Lane(
            "c",
            Impairment(
                5,
                4,
                0,
                10**9,
                Buffer(packets=9),
                (-8192, 0, 8192),
                False,
                GilbertElliott(1, 2, 3, 4),
                5,
                6,
                0,
                7,
                True,
                8,
                True,
                "codel",
                9,
            ),
            Impairment(5, 4, distribution="normal", loss_model=FourState(1, 2, 3, 4, 5), ber_e15=6),
            address=IPv4Address("192.0.2.5"),
        ),
    ),
    IPv4Network("192.0.2.0/29"),
    seed=2**64 - 1,
    on_drift="restore",
)


class Kinds(Struct, frozen=True):
    many: tuple[int, ...] = ()
    pair: tuple[str, float] = ("", 0.0)
    named: dict[str, Buffer] | None = None
    some: frozenset[str] = frozenset()
    word: Literal["a", "b"] = "a"


class Tree(Struct, frozen=True):
    below: tuple[Tree, ...] = ()
    beside: Tree | None = None


@pytest.mark.parametrize("topology", [ODD, *map(loader.load, FILES)], ids=lambda t: t.name)
def test_a_topology_comes_back_equal_from_json_and_from_yaml(topology: Topology) -> None:
    assert from_plain(Topology, json.loads(json.dumps(to_plain(topology)))) == topology
    assert to_json(topology) == json.dumps(to_plain(topology))
    assert loader.loads(loader.dumps(topology)) == topology


def test_every_kind_of_field() -> None:
    kinds = Kinds((1, 2), ("x", 1.5), {"b": Buffer(ns=1)}, frozenset({"q", "p"}), "b")
    plain = json.loads(json.dumps(to_plain(kinds)))
    assert plain["some"] == ["p", "q"]
    assert from_plain(Kinds, plain) == kinds
    assert from_plain(Kinds, {}) == Kinds()


def test_a_class_may_hold_itself() -> None:
    tree = Tree((Tree(), Tree(beside=Tree())), Tree())
    assert from_plain(Tree, to_plain(tree)) == tree


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"many": [1, "2"]}, "'2' is not a int"),
        ({"many": 1}, "1 is not a tuple"),
        ({"pair": ["x"]}, "['x'] is not a tuple"),
        ({"word": "c"}, "'c' is not a"),
        ({"named": {"b": {"bytes": 0}}}, "a buffer of 0 holds no packet"),
        ({"other": 1}, "Kinds has no other"),
        ([], "[] is not a Kinds"),
    ],
)
def test_what_does_not_fit_is_refused(plain: object, message: str) -> None:
    with pytest.raises(ValueError) as error:
        from_plain(Kinds, plain)
    assert message in str(error.value)


def test_a_lane_without_its_name_is_an_error_and_not_a_crash() -> None:
    with pytest.raises(ValueError, match="not a Topology"):
        from_plain(Topology, {"name": "x"})


def test_what_has_no_plain_form_is_refused_when_written() -> None:
    with pytest.raises(TypeError, match="set has no plain form"):
        to_plain({"a": {1}})


def test_changes_are_seen() -> None:
    assert to_plain(replace(ODD, seed=1)) != to_plain(ODD)
