"""The hash that lanes and impairments keep: equal ones have the same, and no copy takes it along."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from emulator.model.kept_hash import KeptHash
from emulator.model.topology import Lane

MS = 10**6


class Asked:
    """A value that counts how often somebody asks for its hash."""

    def __init__(self) -> None:
        self.times = 0

    def __hash__(self) -> int:
        self.times += 1
        return 7


@dataclass(frozen=True)
class Kept(KeptHash):
    """What the tests hash."""

    name: str
    asked: Asked = field(default_factory=Asked)


def test_the_fields_are_hashed_once() -> None:
    one = Kept("a")
    assert hash(one) == hash(one) == hash(Kept("a", one.asked))
    assert one.asked.times == 2, "once for each of the two instances"


def test_another_value_has_another_hash() -> None:
    lane = Lane("japan").with_rtt(80 * MS)
    assert len({hash(lane), hash(replace(lane, mtu=9000)), hash(lane.with_rtt(81 * MS))}) == 3
    assert hash(lane.outbound) == hash(lane.with_rtt(80 * MS).outbound) != hash(lane.with_rtt(2 * MS).outbound)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), replace])
def test_no_copy_takes_the_hash_along(copied: object) -> None:
    lane = Lane("japan").with_rtt(80 * MS)
    hash(lane)
    assert callable(copied)
    other = copied(lane)
    assert other == lane
    assert not hasattr(other, "_hash")
    assert hash(other) == hash(lane)


def test_the_hash_is_no_field() -> None:
    lane = Lane("japan")
    hash(lane)
    assert vars(lane).keys() == {one.name for one in fields(lane)}


def test_a_lane_stays_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Lane("japan").mtu = 9000  # type: ignore[misc]
