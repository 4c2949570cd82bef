"""Connected routes as `ip -j` shows them, and the commands that change nothing but their metrics."""

from __future__ import annotations

import pytest

from emulator.errors import MeasureError
from emulator.hosts import route_metrics
from emulator.hosts.route_metrics import NONE, Metrics, Route

SHOWN = '[{"dst":"10.77.0.0/24","prefsrc":"10.77.0.1","flags":[],"metrics":[{"initcwnd":40}]}]'


def test_a_route_with_metrics() -> None:
    assert route_metrics.parse(SHOWN, "eth0") == [Route("10.77.0.0/24", "eth0", "10.77.0.1", Metrics(40, None))]


def test_a_window_is_a_metric_that_is_set_and_put_back() -> None:
    (one,) = route_metrics.parse(SHOWN.replace('"initcwnd":40', '"initcwnd":40,"window":65535,"rtt":100'), "eth0")
    assert (one.metrics, one.others) == (Metrics(40, None, 65535), ("rtt", "100"))
    assert one.change_argv(one.metrics)[-6:] == ["rtt", "100", "initcwnd", "40", "window", "65535"]


def test_no_routes() -> None:
    assert route_metrics.parse("", "eth0") == []


def test_nonsense_is_an_error() -> None:
    with pytest.raises(MeasureError, match="cannot parse the output of ip route: 'dst'"):
        route_metrics.parse("[{}]", "eth0")


def test_a_change_says_everything_again() -> None:
    one = Route("10.77.0.0/24", "eth0", "10.77.0.1", NONE)
    same = "ip route change 10.77.0.0/24 dev eth0 proto kernel scope link src 10.77.0.1"
    assert one.change_argv(Metrics(40, 20)) == f"{same} initcwnd 40 initrwnd 20".split()
    assert one.change_argv(NONE) == same.split()
