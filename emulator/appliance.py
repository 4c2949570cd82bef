"""The use cases, all under one lock: bring a topology up, take it down, change a lane, tell how things stand."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import reconcile, topologyfile
from .errors import InputError, MissingError, RefusedError
from .kernel import Kernel, QueueCounters
from .model import Lane, Topology
from .netem import Netem, Shaper, memory_bytes
from .ops import Step
from .plan import nothing, plan, wanted
from .state import SWITCH, State, interface_name

STATE_DIR = "/var/lib/longhaul"
MEMORY_SHARE = 0.8
"""Of the machine's memory, what the lanes' queues may need together at the very worst."""


@dataclass(frozen=True)
class DirectionCounters:
    """What one direction counted. Drops by limit are our fault, drops by buffer are physics, by loss as wished.

    Netem has one counter for its limit and its loss: with loss both are None, unknowable. Packets are skbs.
    """

    packets: int = 0
    bytes: int = 0
    queued_packets: int = 0
    queued_bytes: int = 0
    limit_packets: int = 0
    drops_limit: int | None = 0
    drops_buffer: int = 0
    drops_loss: int | None = 0


@dataclass(frozen=True)
class LaneCounters:
    outbound: DirectionCounters
    inbound: DirectionCounters


@dataclass(frozen=True)
class DirectionStatus:
    """One direction as the kernel has it now."""

    port: str
    netem: Netem | None
    shaper: Shaper | None
    counters: DirectionCounters


@dataclass(frozen=True)
class LaneStatus:
    lane: Lane
    outbound: DirectionStatus
    inbound: DirectionStatus


@dataclass(frozen=True)
class Status:
    """What is asked for, how it stands, and the steps between the two."""

    topology: Topology | None
    drift: list[Step]
    lanes: tuple[LaneStatus, ...]


class Appliance:
    """One machine's lanes. Desire is kept in `state_dir`, state in the kernel."""

    def __init__(self, kernel: Kernel, state_dir: Path) -> None:
        self._kernel, self._dir = kernel, state_dir

    def topology(self) -> Topology | None:
        """The topology that is asked for, None when nothing is."""
        if not self._file.exists():
            return None
        return topologyfile.load(self._file)

    def up(self, topology: Topology) -> list[Step]:
        """Make the machine be this topology. Raises RefusedError, KernelError, VerifyError; then nothing changed."""
        with self._lock():
            have = self._kernel.observe()
            refuse(topology, have)
            before = self._file.read_text() if self._file.exists() else None
            # Desire first: killed from here on, the next start knows what was meant and converges.
            self._store(topologyfile.dumps(topology))
            try:
                return reconcile.apply(self._kernel, wanted(topology, have), have)
            except BaseException:
                self._store(before)
                raise

    def down(self) -> list[Step]:
        """Take away all that is ours and give the ports back as they were."""
        with self._lock():
            have = self._kernel.observe()
            steps = reconcile.apply(self._kernel, nothing(have), have)
            self._store(None)
            return steps

    def plan(self, topology: Topology) -> list[Step]:
        """What `up` would do."""
        have = self._kernel.observe()
        refuse(topology, have)
        return plan(wanted(topology, have), have)

    def plan_down(self) -> list[Step]:
        """What `down` would do."""
        have = self._kernel.observe()
        return plan(nothing(have), have)

    def set_lane(self, lane: Lane) -> list[Step]:
        """Replace the lane of that name, live. Raises InputError when there is none."""
        topology = self.topology()
        if topology is None:
            raise InputError.single("no topology is up: bring one up first with longhaul up FILE")
        if lane.name not in topology.sites:
            raise InputError.single(f"no lane {lane.name}: there are {', '.join(topology.sites) or 'none'}")
        return self.up(topology.with_lane(lane))

    def status(self) -> Status:
        """Asked and present side by side."""
        topology, have = self.topology(), self._kernel.observe()
        goal = wanted(topology, have) if topology and not _unknown_ports(topology, have) else nothing(have)
        counted = self._kernel.counters()
        lanes = tuple(
            LaneStatus(lane, *(_direction(port, have, counted) for port in lane_ports(lane)))
            for lane in (topology.lanes if topology else ())
        )
        return Status(topology, plan(goal, have), lanes)

    def counters(self) -> dict[str, LaneCounters]:
        """By lane, both directions' counters."""
        return {s.lane.name: LaneCounters(s.outbound.counters, s.inbound.counters) for s in self.status().lanes}

    @property
    def _file(self) -> Path:
        return self._dir / "topology.yaml"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            self._dir.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._dir / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            raise MissingError(f"cannot write {self._dir}: run as root, or set LONGHAUL_STATE to a folder") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _store(self, text: str | None) -> None:
        """Atomic and durable: the old text or the new one, never half."""
        if text is None:
            self._file.unlink(missing_ok=True)
            return
        partial = self._file.with_suffix(".partial")
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._file)


def local(state_dir: Path | None = None) -> Appliance:
    """This machine, over netlink; desire in `state_dir`, $LONGHAUL_STATE or /var/lib/longhaul."""
    from .kernel.netlink import NetlinkKernel

    return Appliance(NetlinkKernel(), state_dir or Path(os.environ.get("LONGHAUL_STATE", STATE_DIR)))


def lane_ports(lane: Lane) -> tuple[str, str]:
    """The ports whose egress impairs (outbound, inbound): the site port and the hub port."""
    if lane.ports:
        return lane.ports.site, lane.ports.hub
    return interface_name("s", lane.name), interface_name("h", lane.name)


def refuse(topology: Topology, have: State) -> None:
    """Raises RefusedError with every reason why this machine must not be touched for this topology."""
    reasons = [f"port {name}: there is no such interface" for name in _unknown_ports(topology, have)]
    for lane in topology.lanes:
        for name in lane_ports(lane) if lane.ports else ():
            reasons += _port_reasons(name, lane, have)
    goal_bridges = {interface_name("", lane.name) for lane in topology.lanes} | {SWITCH}
    taken = sorted(goal_bridges & have.machine.links.keys())
    reasons += [f"{name}: an interface of that name is not a bridge of ours" for name in taken]
    if not reasons:
        reasons += _memory_reasons(topology, have)
    if reasons:
        raise RefusedError("\n".join(reasons))


def _unknown_ports(topology: Topology, have: State) -> list[str]:
    there = have.machine.links.keys() | have.ports.keys()
    return [n for lane in topology.lanes if lane.ports for n in (lane.ports.hub, lane.ports.site) if n not in there]


def _port_reasons(name: str, lane: Lane, have: State) -> list[str]:
    link = have.machine.links.get(name)
    if link is None:
        return []
    checks = (
        (link.default_route, "carries the default route"),
        (bool(link.addresses), f"has the address {', '.join(link.addresses)}"),
        (bool(link.master), f"belongs to {link.master}"),
        (link.qdisc in ("netem", "tbf", "htb", "hfsc", "cake"), f"has a {link.qdisc} qdisc of somebody else's"),
        (link.mtu != lane.mtu, f"has MTU {link.mtu}, lane {lane.name} wants {lane.mtu}"),
    )
    return [f"port {name}: {text}; free it or name another port" for bad, text in checks if bad]


def _memory_reasons(topology: Topology, have: State) -> list[str]:
    goal, mtus = wanted(topology, have), {p: lane.mtu for lane in topology.lanes for p in lane_ports(lane)}
    need = sum(memory_bytes(port.egress, mtus[name]) for name, port in goal.ports.items() if port.egress)
    if need <= have.machine.memory_bytes * MEMORY_SHARE:
        return []
    return [
        f"the lanes' queues may need {need / 2**30:.1f} GiB, this machine has "
        f"{have.machine.memory_bytes / 2**30:.1f} GiB: lower rate, RTT or buffer"
    ]


def _direction(port: str, have: State, counted: dict[str, QueueCounters]) -> DirectionStatus:
    egress = have.ports[port].egress if port in have.ports else None
    count = counted.get(port)
    if egress is None or count is None:
        return DirectionStatus(port, None, None, DirectionCounters())
    netem, other = egress.netem, count.drops - count.shaper_drops
    lossless = not netem.loss_p32 and not netem.gemodel
    return DirectionStatus(
        port,
        netem,
        egress.shaper,
        DirectionCounters(
            count.packets,
            count.bytes,
            count.queued_packets,
            count.queued_bytes,
            netem.limit,
            other if lossless else None,
            count.shaper_drops,
            0 if lossless else None,
        ),
    )
