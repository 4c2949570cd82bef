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


@pytest.mark.parametrize("kind", ["vxlan", "gre", "ipip"])
def test_a_tunnels_traffic_passes_the_engine(kind: str) -> None:
    found = session()[kind]
    if found is None:
        pytest.skip(f"this kernel has no {kind}")
    assert found["came"] == 3_000_000
    assert (found["refused"], found["limit"]) == (0, 0)
    # Each packet of the tunnel is a frame of its own.
    assert found["received"] > 2000


def test_nothing_is_left_behind() -> None:
    assert session()["left"] == {"engines": [], "sockets": [], "namespaces": [], "links": []}
