"""A run that the web server starts with axes that were once the command line's alone, measured for real."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.waiting import until

from emulator.control.appliance import Appliance
from emulator.kernel.netlink import NetlinkKernel
from web.api.run_form import RunForm
from web.runs import Runs, local_runners
from web.service import UseCases


def test_window_mtu_and_direction_hold_where_they_are_asked_for(
    appliance: Appliance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its own: the cells run in another thread, and pyroute2 opens a socket in every thread that uses one.
    monkeypatch.setattr("emulator.control.local.local", lambda: Appliance(NetlinkKernel(), tmp_path))
    runs = Runs(tmp_path / "runs", UseCases(appliance), local_runners, lambda _: None)
    asked = {"rtt": "100ms", "rate": "20Mbit", "window": "64KiB", "mtu": "1400", "direction": "inbound"}
    name = runs.start(RunForm(**asked, duration="3", repeats="1")).id  # type: ignore[arg-type]
    assert until(lambda: runs.get(name).state == "done")
    (result,) = runs.get(name).found.values()
    assert (runs.get(name).failures, result.judgement.kind, result.spec.path.mtu) == ({}, "receive window", 1400)
    assert result.sockets.peer_window_bytes == pytest.approx(64 * 1024, rel=0.01), "whatever the MTU"
    assert not any("window-not-as-asked" in finding for finding in result.judgement.findings)
    assert result.steady_bytes_per_s == pytest.approx(result.sockets.peer_window_bytes / 0.1, rel=0.05)
