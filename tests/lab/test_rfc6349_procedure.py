"""The procedure of RFC 6349 by the command line, over a lane whose figures are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.control.appliance import Appliance

RTT_NS, MTU = 71 * 10**6, 1500
RATES_BPS = {"outbound": 10**9, "inbound": 10**7}
LANE = """
name: asymmetric
hub: hub
lanes: {far: {rtt: 71ms, outbound: {rate: 1Gbit}, inbound: {rate: 10Mbit}}}
"""
FRAME_BITS = (MTU + 14) * 8
RECEIVED_S = 1.9
"""The datagrams' 2 s without the first interval, which they begin in."""


def test_it_finds_the_lane_as_it_was_asked_for(
    appliance: Appliance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LONGHAUL_STATE", str(tmp_path))
    file = tmp_path / "asymmetric.yaml"
    file.write_text(LANE)
    assert main(["up", str(file)]) == 0
    capsys.readouterr()
    assert main(["rfc6349", "far", "--duration", "2s", "--tcp-profile", "max", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["lane"], found["path_mtu"]) == ("far", MTU)
    assert RTT_NS <= found["baseline_rtt_ns"] < RTT_NS + 10_000
    for name, rate_bps in RATES_BPS.items():
        way = found["directions"][name]
        # To the frame: in virtual time nothing but the whole number of frames keeps it from the rate itself.
        assert abs(way["bottleneck_bps"] - rate_bps) * RECEIVED_S <= FRAME_BITS
        assert way["achievable_bps"] == pytest.approx(rate_bps * 1448 / 1514, rel=1e-3)
        assert way["minimum_rwnd_bytes"] == way["bottleneck_bps"] * found["baseline_rtt_ns"] / 8e9
    names = [f"{way}, {count}" for way in ("outbound", "inbound") for count in ("1 connection", "4 connections")]
    both = [
        f"both ways, {way}, {count}" for count in ("1 connection", "4 connections") for way in ("outbound", "inbound")
    ]
    assert [one["name"] for one in found["transfers"]] == [*names, *both]
    for one in found["transfers"]:
        achievable_bps = found["directions"][one["direction"]]["achievable_bps"]
        assert 0 < one["bps"] <= achievable_bps
        assert one["transfer_time_ratio"] == pytest.approx(achievable_bps / one["bps"])
        assert 0.9 < one["efficiency"] <= 1
        assert one["buffer_delay"] >= 0
