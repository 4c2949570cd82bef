"""Tunnels between hosts through the wire engine, on this machine's own kernel: one session, judged here."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest
from support.own_namespaces import found_by

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and packet sockets need root")


@cache
def session() -> dict[str, Any]:
    """What the session found; it runs once."""
    return found_by("engine_tunnel_session")


def test_a_host_sends_no_super_frames_of_tunnels() -> None:
    assert session()["on"] == {"hub": [], "far": []}


def test_the_traffic_of_every_tunnel_that_this_kernel_has_passes_the_engine() -> None:
    there = {kind: found for kind in ("vxlan", "gre", "ipip") if (found := session()[kind])}
    assert there, "no kind of tunnel was tried"
    for kind, found in there.items():
        assert (found["came"], found["refused"], found["limit"]) == (3_000_000, 0, 0), kind
        # Each packet of the tunnel is a frame of its own.
        assert found["received"] > 2000, kind


def test_nothing_is_left_behind() -> None:
    assert session()["left"] == {"engines": [], "sockets": [], "namespaces": [], "links": []}
