"""An appliance in a container: /proc/sys is read-only, and the process holds CAP_NET_ADMIN and CAP_NET_RAW alone."""

from __future__ import annotations

import os

import pytest
from support.own_namespaces import found_by

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root")


def test_lanes_come_up_where_the_container_began_with_the_right_values() -> None:
    found = found_by("read_only_session", "quiet")
    assert found["up"] == 0, found["said"]
    assert (found["status"], found["down"]) == (0, 0)
    assert found["fixed"] == {}
    assert found["rtt_ms"] >= 30
    assert found["changed"] == [], "down returned the ports"


def test_without_them_every_option_that_helps_is_told_and_nothing_is_left() -> None:
    found = found_by("read_only_session", "loud")
    assert found["up"] == 4, found["said"]
    assert found["fixed"]["net.ipv6.conf.default.disable_ipv6"] == "1"
    for name, value in found["fixed"].items():
        assert f"--sysctl {name}={value}" in found["said"]
    assert found["changed"] == []


def test_a_port_that_came_before_the_values_is_named_with_what_sets_it() -> None:
    found = found_by("read_only_session", "late")
    assert found["up"] == 4, found["said"]
    assert found["fixed"] == {}
    assert "sysctl -q net.ipv6.conf.eth1.disable_ipv6=1" in found["said"]
    assert "nsenter --net" in found["said"]
    assert "create the container" not in found["said"]
    assert found["changed"] == []
