"""What a certificate asks of echoes: what the lanes between two hosts, and the flows that echoes belong to, say."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.config import loader
from emulator.experiment.rtt_certificate import judge
from emulator.hosts.tools.ping import Ping

MS = 10**6
STAR = loader.loads(
    "{name: x, hub: h, lanes: {"
    "a: {rtt: 8ms, flows: {bulk: {match: {port: 9}, rtt: 9ms}, pings: {match: {protocol: icmp}, rtt: 50ms, loss: 1%}}},"
    "b: {rtt: 6ms, flows: {near: {match: {hub: 10.77.0.1}, rtt: 8ms}}}}}"
)


@pytest.mark.parametrize(
    ("one", "other", "rtt_ms", "lossy"), [("h", "a", 50, True), ("h", "b", 8, False), ("a", "b", 56, True)]
)
def test_echoes_are_judged_by_the_flows_that_they_belong_to(one: str, other: str, rtt_ms: int, lossy: bool) -> None:
    pair = judge(STAR, one, other, Ping((rtt_ms * MS,) * 3, 0), 10_000)
    assert (pair.asked_ns, pair.lossy, pair.passed) == (rtt_ms * MS, lossy, True)
    assert not judge(STAR, one, other, Ping(((rtt_ms + 1) * MS,) * 3, 0), 10_000).passed


def test_of_a_lane_that_is_off_only_what_is_in_effect_is_asked() -> None:
    star = STAR.with_lane(replace(STAR.lane("a"), off=True))
    pair = judge(star, "a", "b", Ping((6 * MS,) * 3, 1), 10_000)
    assert (pair.asked_ns, pair.lossy, pair.passed) == (6 * MS, False, False)
    assert judge(star, "a", "b", Ping((6 * MS,) * 3, 0), 10_000).passed
