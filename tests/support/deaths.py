"""Every use case killed -9 before every system call that changes something, and what the next commands make of it."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.hosts import root_qdisc, saved_settings
from emulator.hosts.namespace import NamespaceHost
from emulator.kernel import engine_client, netns
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.topology import Topology
from support import killed_calls

TOPOLOGY = loader.loads("{name: small, hub: hub, lanes: {a: {rtt: 4ms, rate: 1Gbit}}}")
CHANGED = TOPOLOGY.with_lane(TOPOLOGY.lane("a").with_rtt(6_000_000))
BUFFERS = "net.ipv4.tcp_rmem"


@contextmanager
def appliance(folder: Path) -> Iterator[Appliance]:
    """This machine's, with sockets of its own."""
    with closing(Appliance(NetlinkKernel(), folder, recover=saved_settings.recover)) as one:
        yield one


def left() -> dict[str, Any]:
    """What Longhaul could leave behind: interfaces, names of namespaces, engines' sockets, hosts' records."""
    folders = {"names": netns.RUN, "engines": engine_client.RUN}
    there = {
        name: sorted(path.name for path in folder.iterdir()) for name, folder in folders.items() if folder.is_dir()
    }
    records = sorted(path.name for path in saved_settings.FOLDER.glob("*.json"))
    # Not /sys/class/net: where /sys is another namespace's, so are its interfaces.
    links = sorted(name for _, name in socket.if_nameindex())
    return {"names": [], "engines": []} | there | {"links": links, "records": records}


def of_up(folder: Path, every: int = 1) -> Counter[str]:
    """Deaths while a topology comes up: before `every` so manyth call."""
    return _deaths(folder, lambda one: one.up(TOPOLOGY), lambda _: None, every)


def of_set(folder: Path, every: int = 1) -> Counter[str]:
    """Deaths while a lane changes."""
    return _deaths(folder, lambda one: one.set_lanes(CHANGED.lanes), lambda one: one.up(TOPOLOGY), every)


def of_down(folder: Path, every: int = 1) -> Counter[str]:
    """Deaths while the lanes are removed."""
    return _deaths(folder, Appliance.down, lambda one: one.up(TOPOLOGY), every)


def _deaths(
    folder: Path, work: Callable[[Appliance], object], prepare: Callable[[Appliance], object], every: int
) -> Counter[str]:
    """How many deaths at which call; after each every command works, and `down` leaves nothing."""
    before, calls = left(), Counter[str]()
    for at in count(0, every):
        with appliance(folder) as one:
            prepare(one)
        call = killed_calls.killed(lambda: _do(folder, work), at)
        with appliance(folder) as one:
            _check(one, TOPOLOGY, after=f"{at}: {call}", again=at % 6 == 0)
        assert left() == before, f"left by a death before call {at}, {call}"
        if call is None:
            break
        calls[call] += 1
    return calls


def _do(folder: Path, work: Callable[[Appliance], object]) -> None:
    with appliance(folder) as one:
        work(one)


def _check(one: Appliance, topology: Topology, *, after: str, again: bool) -> None:
    try:
        one.status()
        if again:
            one.plan(topology)
            one.up(topology)
            assert one.status().as_asked
        one.down()
    except Exception as error:
        error.add_note(f"after a death before call {after}")
        raise


def of_saved_settings(folder: Path) -> Counter[str]:
    """Deaths while a host's settings are changed and restored; the settings of before are there after a `down`."""
    calls = Counter[str]()
    with appliance(folder) as one:
        one.up(TOPOLOGY)
        host = NamespaceHost("a")
        was = _settings(host)
        while True:
            call = killed_calls.killed(lambda: _changed(host), calls.total())
            assert saved_settings.recover() == []
            assert (_settings(host), left()["records"]) == (was, []), f"after {calls.total()}, {call}"
            if call is None:
                break
            calls[call] += 1
        one.down()
    return calls


def _settings(host: NamespaceHost) -> tuple[str, str]:
    return host.read_sysctl(BUFFERS), host.run(["tc", "qdisc", "show"], 10).checked().stdout


def _changed(host: NamespaceHost) -> None:
    with host.kept([BUFFERS], routes=True, qdisc=True):
        host.write_sysctl(BUFFERS, "4096 65536 1048576")
        root_qdisc.put_on(host, "pfifo_fast")  # every kernel has it


USE_CASES: dict[str, Callable[[Path], Counter[str]]] = {
    "up": of_up, "set": of_set, "down": of_down, "settings": of_saved_settings,
}  # fmt: skip


if __name__ == "__main__":
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as state:
        print(json.dumps(USE_CASES[sys.argv[1]](Path(state))))  # noqa: T201
