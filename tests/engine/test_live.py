"""The wire engine on this machine's own kernel, in real time: one session in namespaces of its own, judged here.

Nothing is judged by how long it took. A lane is at least as long as asked, always; and at most as late as the least
of many round trips, which an unlucky moment of a loaded machine does not touch.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import Any

import pytest
from support.own_namespaces import ROOT, found_by

MS = 10**6

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and packet sockets need root")


@cache
def session() -> dict[str, Any]:
    """What the session found; it runs once."""
    return found_by("engine_session")


def test_a_star_comes_up_through_the_engine_and_stays() -> None:
    assert session()["datapath"] == "wire"
    assert (session()["steps"] > 50, session()["again"]) == (True, 0)


def test_every_pair_of_the_star_has_its_rtt() -> None:
    rows = session()["matrix"]
    assert [row["pair"].split() for row in rows][:3] == [["hub", "california"], ["hub", "london"], ["hub", "japan"]]
    assert len(rows) == 6
    for row in rows:
        assert 0 <= row["min_ns"] - row["asked_ns"] <= MS + session()["lateness_ns"], row


def test_a_live_change_loses_nothing_and_reorders_nothing() -> None:
    live = session()["live"]
    assert live["in_order"] == live["sent"] >= 2500
    # 32, 60, 4, 100 and 32 ms there and back: the shortest was at work.
    assert 2 * MS <= live["least_ns"] < 16 * MS


def test_patterned_bytes_arrive_as_they_were_sent() -> None:
    assert session()["pattern"] == {"same": True}
    out = session()["stats"]["outbound"]
    assert out["sent_bytes"] == out["received_bytes"] > 50_000_000
    assert (out["lost"], out["buffer"], out["limit"], out["refused"], out["queued"]) == (0, 0, 0, 0, 0)
    assert sum(count for _, count in out["lateness_ns"]) == out["sent"]


def test_a_super_frame_that_a_loss_hits_is_cut_and_the_rest_of_it_arrives() -> None:
    lossy = session()["lossy"]
    assert lossy["same"]
    assert lossy["split"] > 0 < lossy["lost"]
    assert (lossy["limit"], lossy["refused"]) == (0, 0)


def test_an_engine_killed_is_seen_and_put_right() -> None:
    killed = session()["killed"]
    assert killed["drift"] == [
        "longhaul-wire stop its engine has died",
        "longhaul-wire start the engine moves the lane's frames from here on",
    ]
    assert killed["left"] == []
    assert killed["after_ns"] >= 32 * MS


def test_the_watchdog_hears_of_a_death_at_once_and_what_was_under_way_arrives() -> None:
    # It would not have looked for an hour. The topology only reports drift; a death is none.
    assert session()["watched"] == {"same": True, "repaired": True, "history": "watchdog: 2 steps: its engine has died"}


def test_a_lane_that_passes_on_failure_opens_by_itself_and_closes_again() -> None:
    passing = session()["passing"]
    assert passing["opened"]
    assert passing["unimpaired_ns"] < 200 * MS <= passing["after_ns"]


def test_what_takes_long_waits_in_a_ring_and_what_does_not_is_fetched() -> None:
    assert all(size > 64 << 20 for size in session()["rings"]["japan"] + session()["ring"]["ring_bytes"])
    assert session()["calls"]["ring_bytes"] == [0, 0]


@pytest.mark.parametrize("ingress", ["calls", "ring"])
@pytest.mark.parametrize("kind", ["jumbo", "jumbo in super-frames", "ipv6", "ipv6 in super-frames"])
def test_every_kind_of_frame_passes(kind: str, ingress: str) -> None:
    assert session()[ingress]["frames"][kind]


@pytest.mark.parametrize("ingress", ["calls", "ring"])
def test_a_vlan_tag_that_the_kernel_took_off_goes_on_again(ingress: str) -> None:
    assert session()[ingress]["tagged"] == {"tci": 3 << 13 | 2007, "tpid": 0x8100, "same": True, "valid": True}


def test_a_port_that_went_down_and_up_again_is_heard_and_nobody_spins_meanwhile() -> None:
    assert session()["flap"]["share"] < 0.5
    assert session()["flap"]["after_ns"] >= 32 * MS


def test_each_direction_has_a_processor_of_its_own_as_long_as_there_are_enough() -> None:
    enough, taken = len(os.sched_getaffinity(0)), set[int]()
    for engine in session()["processors"]:
        own = engine["outbound"] + engine["inbound"]
        if enough - len(taken) < 2:
            assert len(own) == 2 * enough
            continue
        assert len(own) == len(set(own)) == 2
        assert not taken & set(own)
        taken |= set(own)
    assert bool(taken) == (enough > 1)


def test_the_control_socket_is_the_owners_and_bears_noise() -> None:
    assert session()["noise"]


def test_what_cannot_start_says_why() -> None:
    assert session()["refused"] == "1 no-port: no such interface"


def test_nothing_is_left_behind() -> None:
    assert session()["left"] == {"engines": [], "sockets": [], "namespaces": [], "links": []}


@pytest.mark.skipif(not shutil.which("cargo"), reason="scripts/install brings cargo")
def test_the_engines_own_tests_pass() -> None:
    argv = [ROOT / "scripts/engine-cargo", "test", "--locked", "--quiet"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("test result: ok") >= 4
