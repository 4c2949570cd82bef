"""Processes that are killed -9 at a chosen point of their work, and random walks of them.

A point is an operation on the kernel (before it, after it) or a call that reaches the disk while the intent is written.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.control import intent_store
from emulator.control.appliance import Appliance
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.impairment import Buffer, Impairment
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.desired_state import wanted
from emulator.plan.ops import Op
from support import oracle
from support.forked import ended, fork

MS = 10**6
NICS = {"nic0": 1500, "nic1": 1500, "nic2": 9000, "nic3": 9000}
SITES = ("california", "london", "japan", "a-site-with-a-long-name")


class Bomb:
    """Kills its process at the given point, counted from 0; never when None."""

    def __init__(self, at: int | None) -> None:
        self._at, self._points = at, 0

    def tick(self) -> None:
        if self._points == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        self._points += 1

    def wire(self) -> None:
        """Count the calls that reach the disk, too."""
        for name in ("write", "fsync", "replace"):
            setattr(intent_store.os, name, self._ticking(getattr(os, name)))

    def _ticking(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            self.tick()
            answer = real(*args)
            self.tick()
            return answer

        return call


class MinedKernel(NetlinkKernel):
    """The real kernel; the bomb ticks before and after every operation."""

    def __init__(self, bomb: Bomb) -> None:
        super().__init__()
        self._bomb = bomb

    def apply(self, op: Op) -> None:
        self._bomb.tick()
        super().apply(op)
        self._bomb.tick()


def in_a_process(folder: Path, work: Callable[[Appliance], object], kill_at: int | None, disk: bool = True) -> bool:
    """Do the work in a process of its own that dies at a point; whether it died. Any other failure is an error."""

    def mined() -> None:
        bomb = Bomb(kill_at)
        if disk:
            bomb.wire()
        work(Appliance(MinedKernel(bomb), folder))

    status = ended(fork(mined))
    assert status in (0, -signal.SIGKILL), f"a process ended with {status}"
    return status != 0


def make_nics() -> None:
    """Cables into a namespace of somebody else's, whose near ends are the machine's network cards."""
    oracle.sh("ip netns add far")
    for name, mtu in NICS.items():
        oracle.sh(f"ip link add {name} mtu {mtu} type veth peer name {name} mtu {mtu} netns far")
        oracle.sh(f"ip link set {name} up; ip -n far link set {name} up")
    oracle.sh("ip link set nic1 down; sysctl -q net.ipv6.conf.nic2.disable_ipv6=1; ethtool -K nic3 tso off")


def random_topology(rng: random.Random) -> Topology:
    """Up to four lanes: virtual or between network cards, with or without rate, loss, jumbo frames."""
    pairs = [Ports("nic0", "nic1"), Ports("nic2", "nic3")]
    rng.shuffle(pairs)
    virtual_mtu = rng.choice([1500, 9000])
    lanes = []
    for site in rng.sample(SITES, rng.randint(1, len(SITES))):
        ports = pairs.pop() if pairs and rng.random() < 0.4 else None
        mtu = NICS[ports.hub] if ports else virtual_mtu
        lanes.append(Lane(site, _direction(rng), _direction(rng), ports, mtu, line_rate_bps=10**9))
    return Topology(rng.choice(["one", "two"]), rng.choice(["hub", "new-york"]), tuple(lanes), seed=rng.randint(1, 9))


def _direction(rng: random.Random) -> Impairment:
    delay_ns = rng.choice([0, 1, 16 * MS, 173 * MS + 1])
    rate_bps = rng.choice([None, 10**7, 10**9])
    buffer = rng.choice([None, Buffer(bytes=2**20), Buffer(packets=99)]) if rate_bps else None
    jitter_ns = rng.choice([0, delay_ns // 3])
    return Impairment(delay_ns, jitter_ns, rng.choice([0, 0, 42_949_673]), rate_bps, buffer)


@dataclass
class Walk:
    """One walk from a machine with nothing of ours back to it."""

    rng: random.Random
    folder: Path
    killed: int = 0

    def take(self, actions: int, before: dict[str, Any]) -> list[str]:
        """Act, be killed, start again; then go down. What is not as in the snapshot `before`; empty when all is."""
        for _ in range(actions):
            self._act()
        while in_a_process(self.folder, Appliance.down, self._point()):
            self.killed += 1
        return oracle.difference(before, oracle.snapshot())

    def _act(self) -> None:
        with closing(NetlinkKernel()) as kernel:
            self._act_on(kernel)

    def _act_on(self, kernel: NetlinkKernel) -> None:
        appliance = Appliance(kernel, self.folder)
        old = appliance.topology()
        new, work = self._choice(old)
        died = in_a_process(self.folder, work, self._point())
        self.killed += died
        now = appliance.topology()
        assert now == new or (died and now == old), "the intent is lost"
        if died and self.rng.random() < 0.7:  # else the next action finds it as the dead process left it
            appliance.repair(restore=True)
        if not died or self.rng.random() < 0.3:
            appliance.repair(restore=True)
            have = kernel.observe()
            assert now is None or have == wanted(now, have)

    def _choice(self, old: Topology | None) -> tuple[Topology | None, Callable[[Appliance], object]]:
        kind = self.rng.choice(["up", "up", "set", "down"])
        if kind == "down":
            return None, Appliance.down
        if kind == "set" and old:
            lane = self.rng.choice(old.lanes)
            changed = replace(lane, outbound=_direction(self.rng), off=self.rng.random() < 0.2)
            return old.with_lane(changed), lambda appliance: appliance.set_lane(changed)
        new = random_topology(self.rng)
        return new, lambda appliance: appliance.up(new)

    def _point(self) -> int | None:
        return self.rng.choice([None, self.rng.randint(0, 20), self.rng.randint(0, 250)])
