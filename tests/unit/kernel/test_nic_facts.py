"""Facts about an interface, from what the kernel and its driver say."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.kernel import ethtool, nic_facts
from emulator.kernel.link_messages import LinkMessage


def link(parent: str) -> LinkMessage:
    known = {"name": "eth1", "altnames": (), "mac": "", "permanent_mac": "", "parent_device": parent}
    known |= {"rx_queues": 1, "tx_queues": 1, "mtu": 1500, "flags": 0}
    return LinkMessage(**{name: known.get(name) for name in LinkMessage.__struct_fields__})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "parent", "bus"),
    [
        ("0000:01:00.0", "virtio11", "0000:01:00.0"),
        ("0000:03:00.0", "0000:03:00.0", "0000:03:00.0"),
        ("", "0000:03:00.0", "0000:03:00.0"),
        ("", "", ""),
    ],
)
def test_a_virtio_nic_has_the_address_of_its_pci_device(
    said: str, parent: str, bus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ethtool, "driver", lambda name: ("some_driver", said))
    monkeypatch.setattr(ethtool, "offloads", lambda name, names: frozenset())
    assert nic_facts.describe(link(parent), tmp_path).bus == bus
