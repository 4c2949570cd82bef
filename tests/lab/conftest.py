"""What the tests in the lab begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lab_cells import TCP_MEM

from emulator.control.appliance import Appliance
from emulator.hosts.tools import rtt_prober
from emulator.kernel.netlink import NetlinkKernel


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """The real kernel's, with nothing up; taken down after the test."""
    kernel = NetlinkKernel()
    yield (appliance := Appliance(kernel, tmp_path))
    appliance.down()
    kernel.close()


@pytest.fixture
def tcp_memory_as_before() -> Iterator[None]:
    """What a test does to the memory for TCP, which is the whole machine's, is put right after it."""
    before = TCP_MEM.read_text()
    yield
    TCP_MEM.write_text(before)


@pytest.fixture
def pinged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without irtt: ping is cheaper, and it must do too."""
    monkeypatch.setattr(rtt_prober, "_has_irtt", lambda _: False)
