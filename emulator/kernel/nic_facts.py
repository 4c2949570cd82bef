"""Facts about a machine's interfaces: names, driver, speed, queues and offloads."""

from __future__ import annotations

from pathlib import Path

from emulator.errors import RefusedError
from emulator.kernel import ethtool
from emulator.kernel.link_messages import LinkMessage
from emulator.plan.state import MERGING, Nic, Origin

SYS = Path("/sys")
MARK = "longhaul."


def describe(link: LinkMessage, sys: Path = SYS) -> Nic:
    """One interface, from its message, its driver and its sysfs folder below `sys`."""
    folder = sys / "class/net" / link.name
    driver, bus = _driver(link.name)
    return Nic(
        mac=link.mac,
        permanent_mac=link.permanent_mac,
        # The driver's word first: the parent of a virtio NIC is virtio3, a number that may differ after the next boot.
        bus=bus or link.parent_device,
        altnames=tuple(name for name in link.altnames if not name.startswith(MARK)),
        driver=driver,
        speed_mbps=_number(folder / "speed", least=1),
        carrier=link.carrier,
        numa_node=-1 if (node := _number(folder / "device/numa_node", least=0)) is None else node,
        rx_queues=_queues(folder, "rx") or link.rx_queues,
        tx_queues=_queues(folder, "tx") or link.tx_queues,
        mtu=link.mtu,
        offloads=_offloads(link.name),
    )


def mark(link: LinkMessage) -> str | None:
    """Longhaul's mark on an interface. Raises RefusedError for a mark that Longhaul cannot have written."""
    for name in link.altnames:
        if name.startswith(MARK):
            try:
                Origin.decode(name)
            except ValueError as error:
                delete = f"ip link property del dev {link.name} altname {name}"
                raise RefusedError(f"port {link.name}: {error}; delete the altname: {delete}") from None
            return name
    return None


def _driver(name: str) -> tuple[str, str]:
    try:
        return ethtool.driver(name)
    except OSError:  # a virtual interface may have none
        return "", ""


def _offloads(name: str) -> frozenset[str]:
    try:
        return ethtool.offloads(name, MERGING)
    except OSError:  # it vanished since the listing
        return frozenset()


def _queues(folder: Path, kind: str) -> int:
    """The number of queues in use; netlink reports the possible number."""
    return len(list((folder / "queues").glob(f"{kind}-*")))


def _number(path: Path, *, least: int) -> int | None:
    """The content of a sysfs file; None where the driver reports nothing, or an impossible value (-1)."""
    try:
        value = int(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if value >= least else None
