"""The traffic of the demo: what it does when the intent cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.cli.demo_server import DemoTraffic
from emulator.control.intent_store import INTENT_FILE, Intent, IntentStore
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools.process import Running, start
from emulator.hosts.tools.workloads import BACKGROUND
from emulator.model.topology import Lane, Topology


def test_the_traffic_outlives_an_intent_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Running] = []

    def server(_: NamespaceHost) -> Running:
        started.append(start(["sleep", "600"]))
        return started[-1]

    monkeypatch.setattr(BACKGROUND, "start_server", server)
    monkeypatch.setattr(NamespaceHost, "is_listening", lambda *_: False)
    store, intent = IntentStore(tmp_path), Intent(Topology("star", "hub", (Lane("far"),)))
    store.write(intent)
    traffic = DemoTraffic(store)
    try:
        traffic.keep()
        (tmp_path / INTENT_FILE).write_text("{")
        traffic.keep()
        assert [one.running() for one in started] == [True]
        store.write(intent)
        traffic.keep()
        assert [one.running() for one in started] == [True]
        store.write(Intent())
        traffic.keep()
        assert [one.running() for one in started] == [False]
    finally:
        for one in started:
            one.terminate()
