"""Measures the RTT of lanes in use all the time: one endless ping per virtual lane, from hub to site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from emulator.errors import LonghaulError
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools import ping
from emulator.hosts.tools.ping import SEQUENCES
from emulator.hosts.tools.process import Running
from emulator.model.topology import Topology

INTERVAL_S = 0.1
LATE_S = 3.0
"""An echo counts as lost when one is answered that was sent this time and the longest round trip after it."""
MOST_BEHIND = 6000
"""A number this far behind the last one, ten minutes, is an older one; any other is a newer one."""


class Rtts(Struct, frozen=True):
    """The round trips since the last call: sorted, in ns, and how many echoes are lost as has been found since."""

    sorted_ns: tuple[int, ...] = ()
    lost: int = 0


class Echo(Protocol):
    """A running measurement."""

    def take(self) -> Rtts: ...

    def alive(self) -> bool: ...

    def stop(self) -> None: ...


class Numbers:
    """The numbers of the echoes that are answered, in any order, and of those between them that are missing so far.

    The first reply may be late: echoes sent before it do not count.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._missing: set[int] = set()

    def answered(self, number: int) -> None:
        """The echo of this number is answered; ICMP's numbers begin anew after the highest one."""
        last = number if self._last is None else self._last
        behind = (last - number) % SEQUENCES
        if behind <= MOST_BEHIND:
            self._missing.discard(last - behind)
            self._last = last
        else:
            self._last = last + SEQUENCES - behind
            self._missing.update(range(last + 1, self._last))

    def lost(self, late: int) -> int:
        """How many are missing and at least `late` numbers older than the newest; each is told once."""
        lost = {number for number in self._missing if number + late <= (self._last or 0)}
        self._missing -= lost
        return len(lost)


class PingEcho:
    """An endless ping. Raises MissingError when the host does not exist.

    Nobody waits for its lines: with many lanes, waking for each of them costs more than the echoes themselves.
    """

    def __init__(self, hub: str, address: str) -> None:
        self._program: Running = NamespaceHost(hub).start(ping.endless_argv(address, INTERVAL_S))
        self._numbers = Numbers()

    def take(self) -> Rtts:
        """The echoes that came since the last call. Raises MeasureError when ping prints what is no line."""
        rtts_ns = list[int]()
        for number, rtt_ns in filter(None, map(ping.parse_reply, self._program.lines_so_far())):
            rtts_ns.append(rtt_ns)
            self._numbers.answered(number)
        rtts_ns.sort()
        late_s = LATE_S + (rtts_ns[-1] / 1e9 if rtts_ns else 0)
        return Rtts(tuple(rtts_ns), self._numbers.lost(round(late_s / INTERVAL_S)))

    def alive(self) -> bool:
        """Whether ping still runs."""
        return self._program.running()

    def stop(self) -> None:
        """End it."""
        self._program.terminate()


Starter = Callable[[str, str], Echo]


class Echoes:
    """The echoes of a topology: `follow` starts and stops them as lanes come and go."""

    def __init__(self, start: Starter = PingEcho) -> None:
        self._start = start
        self._running: dict[tuple[str, str, str], Echo] = {}
        self._topology: Topology | None = None
        self._wanted: frozenset[tuple[str, str, str]] = frozenset()

    def follow(self, topology: Topology | None) -> None:
        """Measure the virtual lanes of this topology from now on, and no others."""
        if topology is not self._topology:  # it is the same one, second after second
            self._topology, self._wanted = topology, _echoed(topology)
        for key in [k for k, echo in self._running.items() if k not in self._wanted or not echo.alive()]:
            self._running.pop(key).stop()
        for key in self._wanted - self._running.keys():
            try:
                self._running[key] = self._start(key[0], key[2])
            except LonghaulError:
                continue  # no such host yet, or none on this machine: the next call tries again

    def take(self) -> Mapping[str, Rtts]:
        """The round trips since the last call, by lane."""
        return {key[1]: echo.take() for key, echo in self._running.items()}

    def stop(self) -> None:
        """End them all."""
        self.follow(None)


def _echoed(topology: Topology | None) -> frozenset[tuple[str, str, str]]:
    """The virtual lanes: the hosts at both ends and the address of the far one."""
    ends = [topology.ends(lane.name) for lane in topology.virtual_lanes] if topology else []
    return frozenset((hub.host, site.host, str(site.address.ip)) for hub, site in ends)
