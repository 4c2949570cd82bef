"""A partial lane over one that is there."""

from __future__ import annotations

from typing import Any

import pytest

from emulator import lanepatch
from emulator.errors import InputError
from emulator.model import Buffer, Impairment, Lane, Topology

MS = 10**6
UNEVEN = Lane("a", Impairment(30 * MS, MS, 43, 10**9, Buffer(bytes=8 << 20)), Impairment(2 * MS))
STAR = Topology("star", "hub", (UNEVEN, Lane("b")))


def patched(patch: dict[str, Any]) -> Lane:
    """Lane a after the patch; the other lane never changes."""
    after = lanepatch.patched(STAR, "a", patch)
    assert after.lane("b") == STAR.lane("b")
    return after.lane("a")


def test_an_empty_patch_changes_nothing() -> None:
    assert lanepatch.patched(STAR, "a", {}) == STAR


@pytest.mark.parametrize(
    ("patch", "delays"),
    [
        ({"rtt": "50ms"}, (25 * MS, 25 * MS)),
        ({"rtt": "3ns", "jitter": None}, (2, 1)),
        ({"rtt": "50ms", "inbound": {"delay": "1ms"}}, (49 * MS, MS)),
        ({"inbound": {"delay": "7ms"}}, (30 * MS, 7 * MS)),
        ({"rtt": None, "jitter": None}, (0, 0)),
    ],
)
def test_delays(patch: dict[str, Any], delays: tuple[int, int]) -> None:
    lane = patched(patch)
    assert (lane.outbound.delay_ns, lane.inbound.delay_ns) == delays


def test_what_holds_for_both_directions_and_what_for_one() -> None:
    lane = patched({"loss": "1%", "inbound": {"loss": None, "rate": "1Mbit"}})
    assert (lane.outbound.loss_p32, lane.inbound.loss_p32) == (42949673, 0)
    assert (lane.outbound.rate_bps, lane.inbound.rate_bps) == (10**9, 10**6)
    assert lane.outbound.buffer == Buffer(bytes=8 << 20)


def test_a_buffer_goes_with_its_rate() -> None:
    with pytest.raises(InputError, match="a buffer needs a rate"):
        patched({"rate": None})
    assert patched({"rate": None, "buffer": None}).outbound.rate_bps is None


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"rtt": 40}, "lanes.a.rtt"),
        ({"rtt": "1ms"}, "lanes.a"),  # half of it is less than the jitter there
        ({"ports": {}}, "lanes.a.ports"),
        ({"inbound": None}, "lanes.a.inbound"),
        ({"outbound": {"loss": []}}, "lanes.a.outbound.loss"),
    ],
)
def test_mistakes(patch: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError) as caught:
        patched(patch)
    assert [m.path for m in caught.value.mistakes] == [path]


def test_a_lane_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no such lane; there are a, b"):
        lanepatch.patched(STAR, "c", {"rtt": "1ms"})
