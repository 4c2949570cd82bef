"""The use cases, all under one lock: bring a topology up, take it down, change a lane, tell how things stand."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import reconcile, topologyfile
from .errors import InputError, MissingError
from .goal import datapath, nothing, wanted
from .kernel import Kernel
from .model import Lane, Topology
from .ops import Step
from .plan import plan
from .refusal import refuse, unknown_ports
from .status import LaneCounters, Status, lane_status

STATE_DIR = "/var/lib/longhaul"


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
        goal = wanted(topology, have) if topology and not unknown_ports(topology, have) else nothing(have)
        counted = self._kernel.counters()
        lanes = tuple(lane_status(lane, have, counted) for lane in (topology.lanes if topology else ()))
        return Status(topology, plan(goal, have), lanes, datapath(topology, have) if topology else "netem")

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
