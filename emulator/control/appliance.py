"""The use cases, all under one lock: bring a topology up, take it down, change a lane, take a change back, repair.

Intent goes to the disk before the kernel is touched: killed from there on, the next start knows what was meant.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path

from emulator.control import reconcile, revert_start
from emulator.control.change_log import REVERT, WATCHDOG, Author, History, LoggedChange, here
from emulator.control.intent_store import Intent, IntentStore
from emulator.control.pending_change import Ledger
from emulator.control.protected_sessions import ssh_addresses
from emulator.control.schedule_player import NOBODY, Follower, noted
from emulator.control.status import Status, lane_status, recounted
from emulator.errors import InputError, RefusedError
from emulator.hosts import saved_settings
from emulator.kernel.protocol import Kernel
from emulator.model.topology import Lane, Topology
from emulator.plan.desired_state import datapath, nothing, remembering
from emulator.plan.nic_inventory import NicRow, nic_rows, port_names
from emulator.plan.ops import Step
from emulator.plan.partial import narrow, ports_of
from emulator.plan.planner import plan
from emulator.plan.preconditions import memory_reasons, refuse, warnings
from emulator.plan.repair import RepairOutcome, repair_plan_now, revived
from emulator.plan.scheduled_state import began, present, wanted_at
from emulator.plan.state import State
from emulator.system import state_dir as paths
from emulator.system.clock import Clock, SystemClock
from emulator.system.timer import Alarm


class Appliance:
    """One machine's lanes. Intent and history are kept in `state_dir`, state in the kernel.

    `guard` is what watches over a change that waits to be confirmed, from before it is made. `sessions` are addresses
    of this machine on which somebody is connected: their port is never taken. `recover` puts back what measurements
    that were killed have left on the hosts.
    """

    def __init__(
        self, kernel: Kernel, state_dir: Path, sessions: Collection[str] = (), *, author: Author | None = None,
        clock: Clock | None = None, guard: Callable[[Path], None] = revert_start.start,
        recover: Callable[[], object] = list,
    ) -> None:  # fmt: skip
        self._kernel, self._store, self._history = kernel, IntentStore(state_dir), History(state_dir / "changes")
        self._author, self._clock, self._guard = author or here("longhaul"), clock or SystemClock(), guard
        self._sessions, self._recover = sessions, recover
        self._ledger = Ledger(self._store, self._history, self._clock)

    def close(self) -> None:
        """Let go of the kernel; the lanes stay as they are."""
        self._kernel.close()

    def topology(self) -> Topology | None:
        """The topology that is asked for, None when nothing is."""
        return self._store.read().topology

    def up(
        self, topology: Topology, confirm_s: float | None = None, *, sessions: Collection[str] = (), anew: bool = False
    ) -> list[Step]:
        """Make the machine be this topology. Raises RefusedError, KernelError, VerifyError; then nothing changed.

        With `confirm_s` it is taken back after so many seconds unless `confirm` is called before. `sessions`: further
        addresses of this machine that must not be cut, such as an API client's. A schedule that is up already goes on
        in its phase, unless it is to begin `anew`.
        """
        with self._changing():
            return self._make(topology, f"up {topology.name}", confirm_s, sessions=sessions, anew=anew)

    @contextmanager
    def lease(self, topology: Topology) -> Iterator[None]:
        """Be this topology for the time of the block, then again what was before; history hears nothing of it.

        Nobody else changes anything meanwhile. If this process is killed, the guard, the daemon or the next change
        returns it. Raises RefusedError while a change waits to be confirmed, and as `up` does.
        """
        with ExitStack() as until_returned:
            with self._changing():
                if self._store.read().pending:
                    raise RefusedError("a change waits to be confirmed: longhaul confirm, or longhaul undo, first")
                until_returned.enter_context(self._store.holding_lease())
                self._make(topology, "lease", lease=True)
            try:
                yield
            finally:
                with self._store.locked():
                    self._return("returned")

    def down(self) -> list[Step]:
        """Take away all that is ours and give the ports back as they were. Ends what waits to be confirmed."""
        with self._store.locked():
            self._ledger.refuse_leased()
            return self._make(None, "down", settled=True)

    def undo(self) -> list[Step]:
        """Go back to the topology before the last change, which is itself a change. Raises InputError without one."""
        with self._changing():
            for change in self._history.last(self._store.read().change):
                if change.before != change.after:
                    return self._make(change.before, f"undo change {change.number}: {change.summary}")
            raise InputError.single("there is no change to undo: see longhaul history")

    def confirm(self) -> None:
        """Keep what waits to be confirmed. Raises InputError when nothing does, RefusedError when it is too late."""
        with self._store.locked():
            self._ledger.confirm()

    def expire(self) -> bool:
        """Take back what was not confirmed in time, or not before the reboot; False when there is no such thing."""
        with self._store.locked():
            return self._expire()

    def history(self, count: int = 50) -> list[LoggedChange]:
        """The last changes, newest first."""
        return self._history.last(self._store.read().change, count)

    def plan(self, topology: Topology) -> list[Step]:
        """What `up` would do."""
        have = self._kernel.observe()
        refuse(topology, have, self._sessions)
        now, at_ns = self._store.read(), self._clock.unix_ns()
        scheduled = present(topology, began(topology, now.topology, now.began_ns, at_ns), at_ns)
        return plan(wanted_at(topology, scheduled, have), have)

    def warnings(self, topology: Topology) -> list[str]:
        """What `up` will do although it is likely not meant; virtual lanes give no reason for any."""
        virtual = all(lane.ports is None for lane in topology.lanes)
        return [] if virtual else warnings(topology, self._kernel.observe())

    def nics(self) -> list[NicRow]:
        """Every interface that could be a port, or why it cannot."""
        return nic_rows(self._kernel.observe(), self._sessions)

    def plan_down(self) -> list[Step]:
        """What `down` would do."""
        return plan(nothing(have := self._kernel.observe()), have)

    def set_lane(self, lane: Lane, confirm_s: float | None = None) -> list[Step]:
        """Replace the lane of that name, live. Raises InputError when there is none."""
        return self.set_lanes([lane], confirm_s)

    def set_lanes(self, lanes: Sequence[Lane], confirm_s: float | None = None) -> list[Step]:
        """Replace the lanes of those names, live, all in one. Raises InputError when there is no such lane."""
        with self._changing():
            old = self.topology()
            if old is None:
                raise InputError.single("no topology is up: bring one up first with longhaul up FILE")
            names = [lane.name for lane in lanes]
            if missing := [name for name in names if name not in old.sites]:
                raise InputError.single(f"no lane {', '.join(missing)}: there are {', '.join(old.sites) or 'none'}")
            return self._make(reduce(Topology.with_lane, lanes, old), f"set {' '.join(names)}", confirm_s, only=names)

    def port_names(self, names: Sequence[str]) -> list[str]:
        """The interfaces that these names of any kind mean. Raises InputError when one means none, or several."""
        return port_names(names, self._kernel.observe())

    def status(self) -> Status:
        """Asked and present side by side."""
        now, at_ns, have = self._store.read(), self._clock.unix_ns(), self._kernel.observe()
        found, counted = repair_plan_now(now.topology, now.began_ns, at_ns, have), self._kernel.counters()
        asked = present(now.topology, now.began_ns, at_ns).lanes if now.topology else ()
        lanes = tuple(lane_status(lane, have, counted) for lane in asked)
        pending, late = self._ledger.pending_status(now.pending), noted(self.state_dir, now.began_ns)
        path = datapath(now.topology, have.machine) if now.topology else "netem"
        return Status(now.topology, found.steps, lanes, found.blocked, pending, path, late)

    def recounted(self, status: Status) -> Status:
        """The same with the counters of now: a fifth of what a status costs."""
        return recounted(status, self._kernel.counters())

    def repair(self, *, restore: bool | None = None) -> RepairOutcome:
        """What the watchdog does: take back what is overdue, look for drift, and repair it.

        `restore` None does as the topology says (`on_drift`); an engine that died is started again in any case, for
        that is nobody's change. What is healthy is not touched, nor what a state folder that is new knows nothing of.
        """
        with self._store.locked():
            reverted = self._expire()
            self._recover()
            now, at_ns = self._store.read(), self._clock.unix_ns()
            have = remembering(self._kernel.observe(), now.topology)
            found = repair_plan_now(now.topology, now.began_ns, at_ns, have, patient=restore is not True)
            wish = bool(now.topology and now.topology.on_drift == "restore") if restore is None else restore
            known = self._store.is_known()
            goal = found.goal if wish and known else revived(found.goal, have)
            steps = reconcile.apply(self._kernel, goal, have)
            self._ledger.note_repair(now, steps, replace(self._author, command=WATCHDOG))
            return RepairOutcome(reverted, steps, plan(found.goal, goal), dict(found.blocked), known)

    def pending_ns(self) -> int | None:
        """The time left to confirm what waits for it, None when nothing does, or until its leaseholder is gone."""
        return self._ledger.left_ns(pending) if (pending := self._store.read().pending) else None

    def follower(self, alarm: Alarm, guard: AbstractContextManager[object] = NOBODY) -> Follower:
        """Whoever plays the schedule of what is up; `guard` keeps it from the kernel while others are at it."""
        return Follower(self._kernel, self._store, alarm, guard)

    @property
    def state_dir(self) -> Path:
        """Where intent is kept."""
        return self._store.folder

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """The lock, with what is overdue taken back first. Raises RefusedError while the lanes are leased."""
        with self._store.locked():
            self._expire()
            self._ledger.refuse_leased()
            yield

    def _expire(self) -> bool:
        pending = self._store.read().pending
        if pending is None or not self._ledger.is_overdue(pending):
            return False
        steps = self._return("not confirmed: taken back")
        if pending.leased:
            self._ledger.note_repair(self._store.read(), steps, replace(self._author, command=REVERT))
        return True

    def _return(self, summary: str) -> list[Step]:
        """Under the lock: make what is pending be as it was before."""
        pending = self._store.read().pending
        assert pending
        author = replace(self._author, command=REVERT)
        return self._make(pending.base, summary, author=author, settled=True, began_ns=pending.began_ns)

    def _make(
        self, topology: Topology | None, summary: str, confirm_s: float | None = None, *, author: Author | None = None,
        settled: bool = False, lease: bool = False, began_ns: int | None = None, only: Sequence[str] = (),
        sessions: Collection[str] = (), anew: bool = False,
    ) -> list[Step]:  # fmt: skip
        """Under the lock: intent and history to the disk, the kernel after it; any failure leaves both as they were.

        `settled`: nothing is pending any more. `lease`: it lasts as long as this process. `began_ns`: when its
        schedule began, if it has been up before. `only` names the lanes that a change is about.
        """
        self._recover()
        old = self._store.read()
        if began_ns is None:
            began_ns = began(topology, old.topology, None if anew else old.began_ns, self._clock.unix_ns())
        new = replace(old, topology=topology, pending=None if settled else old.pending, began_ns=began_ns)
        goal, have, look = self._view(old.topology, new, only, {*self._sessions, *sessions})
        confirm_ns = None if confirm_s is None else round(confirm_s * 1e9)
        new = self._ledger.with_lease(new, old) if lease else self._ledger.waiting(new, old, confirm_ns)
        new = self._ledger.enter(new, old, summary, author or self._author)
        try:
            if confirm_ns is not None or lease:
                self._guard(self._store.folder)
            steps = reconcile.apply(self._kernel, goal, have, look)
        except BaseException:
            self._store.write(old)
            raise
        if confirm_ns is not None:
            self._store.write(self._ledger.waiting(new, old, confirm_ns))
        elif old.topology == topology:
            self._ledger.note_repair(new, steps, author or self._author)
        return steps

    def _view(
        self, old: Topology | None, asked: Intent, only: Sequence[str], sessions: Collection[str]
    ) -> tuple[State, State, Callable[[], State] | None]:
        """Where to go, from where, how to look: at the changed lanes alone where that will do."""
        new = asked.topology
        if old and new and only:
            ports = ports_of(lanes := [lane for lane in old.lanes if lane.name in only])
            # What is plugged in takes more looking at: other names, TX queues, offloads, trunks.
            have = State() if any(lane.ports for lane in lanes) else self._kernel.ports_of(ports)
            if pair := narrow(old, new, only, have):
                if reasons := memory_reasons(new, have.machine):
                    raise RefusedError("\n".join(reasons))
                return *pair, lambda: self._kernel.ports_of(ports)
        have = remembering(self._kernel.observe(), old)
        if new is None:
            return nothing(have), have, None
        refuse(new, have, sessions)
        return wanted_at(new, present(new, asked.began_ns, self._clock.unix_ns()), have), have, None


def local(
    state_dir: Path | None = None, command: str | None = None, guard: Callable[[Path], None] = revert_start.start
) -> Appliance:
    """This machine, over netlink; intent in `state_dir`, $LONGHAUL_STATE or /var/lib/longhaul.

    `command` is what the history shows as the cause of changes, this process's command line when None.
    """
    from emulator.kernel.netlink import NetlinkKernel

    author, folder = here(command or shlex.join(["longhaul", *sys.argv[1:]])), state_dir or paths.state_dir()
    return Appliance(
        NetlinkKernel(), folder, ssh_addresses(), author=author, guard=guard, recover=saved_settings.recover
    )
