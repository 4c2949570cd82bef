"""Facts about a machine's interfaces: names, driver, speed, queues and offloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from emulator.errors import RefusedError
from emulator.kernel import ethtool
from emulator.plan.state import MERGING, Nic, Origin

SYS = Path("/sys")
IFF_LOWER_UP = 1 << 16
MARK = "longhaul."


def describe(link: Any, sys: Path = SYS) -> Nic:
    """One interface, from its netlink dump, its driver and its sysfs folder below `sys`."""
    name = link.get_attr("IFLA_IFNAME")
    folder = sys / "class/net" / name
    driver, bus = _driver(name)
    permanent = link.get_attr("IFLA_PERM_ADDRESS")
    return Nic(
        mac=(link.get_attr("IFLA_ADDRESS") or "").lower(),
        permanent_mac=(permanent or "").lower(),
        bus=link.get_attr("IFLA_PARENT_DEV_NAME") or bus,
        altnames=tuple(n for n in altnames(link) if not n.startswith(MARK)),
        driver=driver,
        speed_mbps=_number(folder / "speed", least=1),
        carrier=bool(link["flags"] & IFF_LOWER_UP),
        numa_node=-1 if (node := _number(folder / "device/numa_node", least=0)) is None else node,
        rx_queues=_queues(folder, "rx") or link.get_attr("IFLA_NUM_RX_QUEUES") or 1,
        tx_queues=_queues(folder, "tx") or link.get_attr("IFLA_NUM_TX_QUEUES") or 1,
        mtu=link.get_attr("IFLA_MTU"),
        offloads=_offloads(name),
    )


def altnames(link: Any) -> list[str]:
    """All names of an interface besides the first."""
    properties = link.get_attr("IFLA_PROP_LIST")
    return [str(name) for name in properties.get_attrs("IFLA_ALT_IFNAME")] if properties else []


def mark(link: Any) -> str | None:
    """Longhaul's mark on an interface. Raises RefusedError for a mark that Longhaul cannot have written."""
    for name in altnames(link):
        if name.startswith(MARK):
            try:
                Origin.decode(name)
            except ValueError as error:
                port = link.get_attr("IFLA_IFNAME")
                delete = f"ip link property del dev {port} altname {name}"
                raise RefusedError(f"port {port}: {error}; delete the altname: {delete}") from None
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
        value = int(path.read_text())
    except (OSError, ValueError):
        return None
    return value if value >= least else None
