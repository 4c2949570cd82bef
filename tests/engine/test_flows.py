"""Flows through the wire engine on this machine's own kernel, in real time: one session, judged here."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest
from support.own_namespaces import found_by

MS = 10**6

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and packet sockets need root")


@cache
def session() -> dict[str, Any]:
    """What the session found; it runs once."""
    return found_by("engine_flows_session")


def test_a_lane_with_flows_comes_up_and_stays() -> None:
    assert session()["steps"] > 10
    assert session()["again"] == 0


def test_each_flow_has_its_own_rtt() -> None:
    rtt_ns = session()["rtt_ns"]
    assert rtt_ns["lost"] is None
    for name, asked_ms in (("quick", 20), ("twice", 40), ("rest", 80), ("marked", 160)):
        # Shorter than the next longer one, however late the machine is.
        assert asked_ms * MS <= rtt_ns[name] < 2 * asked_ms * MS, name


def test_each_flow_has_its_own_counters() -> None:
    counted = session()["counted"]
    # Twenty round trips each; ARP belongs to no flow.
    assert (counted["quick"], counted["twice"], counted["marked"], counted["lost"]) == (20, 40, 20, 0)
    assert 20 <= counted["rest"] < 30
    assert session()["lost"] >= 1


def test_duplicates_and_flows_go_together() -> None:
    assert session()["copies"] == 400
    assert session()["killed"]["twice"] == 100


def test_flows_change_come_and_go_and_no_frame_of_the_others_is_lost() -> None:
    live = session()["live"]
    assert live["quick"]["whole"], live
    assert live["rest"]["whole"], live
    assert min(live["quick"]["sent"], live["rest"]["sent"]) > 500
    assert session()["ours"] == [0, 0, 0, 0, 0]
    assert 20 * MS <= session()["after_ns"] < 40 * MS


def test_an_engine_killed_amid_a_flow_comes_back_with_all_flows() -> None:
    killed = session()["killed"]
    assert killed["drift"] == ["its engine has died", "the engine moves the lane's frames from here on"]
    assert killed["left"] == 0
    assert 20 * MS <= killed["quick_ns"] < 40 * MS
    assert 80 * MS <= killed["rest_ns"] < 160 * MS


def test_status_names_what_the_kernel_refused() -> None:
    assert session()["permitted"] == []
    refused = session()["unprivileged"]["refused"]
    assert refused == [f"{what}: not permitted without CAP_SYS_NICE" for what in ("nice -10", "SCHED_FIFO")]
    assert 20 * MS <= session()["unprivileged"]["quick_ns"] < 40 * MS


def test_nothing_is_left_behind() -> None:
    assert session()["left"] == {"engines": [], "sockets": [], "namespaces": [], "links": []}
