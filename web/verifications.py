"""Verifications: every pair of hosts, or some, measured in the background while nobody may change the lanes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from emulator.control.status import Status
from emulator.errors import InputError, LonghaulError, RefusedError
from emulator.experiment import impairment_test, pair_reasons, rtt_certificate
from emulator.experiment.impairment_test import Proof
from emulator.experiment.rtt_certificate import Pair, PairReasons, Unanswered
from emulator.hosts.tools import time_tolerance
from emulator.model.topology import Topology
from emulator.system import clock, lateness
from web.certificates import Certificates
from web.service import UseCases

RUNNING, DONE, CANCELLED, FAILED = "running", "done", "cancelled", "failed"
CANCELLING = "cancelled, ends after what is measured at present"
log = logging.getLogger("longhaul.web")


class Wanted(Struct, frozen=True):
    """What to verify: these pairs (all when empty) with `count` echoes each.

    With `packets` the impairments of the lanes between them are measured, too, by as many packets for each direction.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    count: int = 10
    packets: int | None = None


class Verification(Struct, frozen=True):
    """The state of a verification and what it has found. `total` and `finished` count pairs and lanes.

    `certificate` is the id of the certificate that a finished one has filed; `trouble` is the error that ended it. Of
    two states the one with the larger `version` is newer, also of two verifications.
    """

    state: str
    total: int
    finished: int = 0
    step: str = ""
    pairs: tuple[Pair, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()
    proofs: tuple[Proof, ...] = ()
    reasons: tuple[PairReasons, ...] = ()
    certificate: str | None = None
    trouble: str = ""
    version: int = 1


class Tools(Protocol):
    """What measures; the tests have others."""

    def ping(
        self, topology: Topology, wanted: Wanted, tolerance_ns: int, unanswered: Callable[[Unanswered], object]
    ) -> Iterator[Pair]:
        """The pairs, each when it is known."""

    def prove(self, topology: Topology, packets: int, tolerance_ns: int, lane: str) -> list[Proof]:
        """The impairments of a lane."""


class LocalTools:
    """Echoes and numbered packets between the topology's hosts."""

    def ping(
        self, topology: Topology, wanted: Wanted, tolerance_ns: int, unanswered: Callable[[Unanswered], object]
    ) -> Iterator[Pair]:
        """The pairs, several at once in real time."""
        at_once = 1 if clock.here_is_virtual() else rtt_certificate.AT_ONCE
        return rtt_certificate.measure(topology, wanted.count, tolerance_ns, at_once, wanted.pairs, unanswered)

    def prove(self, topology: Topology, packets: int, tolerance_ns: int, lane: str) -> list[Proof]:
        """The impairments of a lane and its flows."""
        return impairment_test.prove(topology, packets, tolerance_ns, [lane])


class _Cancelled(Exception):
    """The user cancelled the verification."""


class Verifications:
    """One verification at a time, and the last one. `say` hears every step, with what is new alone."""

    def __init__(
        self, usecases: UseCases, certificates: Certificates, say: Callable[[Verification], object],
        tools: Tools | None = None,
    ) -> None:  # fmt: skip
        self._usecases, self._certificates, self._say = usecases, certificates, say
        self._tools: Tools = tools or LocalTools()
        self._lock, self._cancelled = threading.Lock(), threading.Event()
        self._telling = threading.Lock()
        self._thread: threading.Thread | None = None
        self.last: Verification | None = None

    def start(self, wanted: Wanted) -> Verification:
        """Take the lanes and begin. Raises InputError for pairs that cannot be measured, and RefusedError while another
        verification, a test run or a pending change has the lanes."""
        with self._lock:
            if self.last and self.last.state == RUNNING:
                raise RefusedError("a verification is active: wait for its end, or cancel it")
            with ExitStack() as until_returned:
                asked = self._usecases.topology()
                still = until_returned.enter_context(self._usecases.holding())
                wanted = replace(wanted, pairs=_checked(still, wanted.pairs))
                lanes = _lanes(still, wanted)
                with self._telling:  # `cancel` may still be telling a step of the last one
                    version = self.last.version + 1 if self.last else 1
                    self.last = Verification(RUNNING, len(wanted.pairs) + len(lanes), version=version)
                    self._cancelled.clear()
                as_asked = replace(still, on_drift=asked.on_drift) if asked else still
                arguments = (as_asked, wanted, lanes, until_returned.pop_all())
                self._thread = threading.Thread(target=self._run, args=arguments, name="verification", daemon=True)
            self._thread.start()
            return self.last

    def cancel(self) -> Verification | None:
        """Cancel the active verification: it ends after what is measured at present, and files no certificate."""
        self._cancelled.set()
        if self.last and self.last.state == RUNNING:
            self._step(0)
        return self.last

    def stop(self) -> None:
        """Cancel the active verification and wait for its end."""
        with self._lock:  # one that begins would else go on
            self._cancelled.set()
        self.wait()

    def wait(self) -> None:
        """Wait for the end of the active verification."""
        with self._lock:  # one that begins has its thread started by then
            thread = self._thread
        if thread:
            thread.join()

    def _run(self, topology: Topology, wanted: Wanted, lanes: Sequence[str], until_returned: ExitStack) -> None:
        state, trouble, certificate = DONE, "", None
        try:
            with until_returned:
                certificate = self._measured(topology, wanted, lanes)
        except _Cancelled:
            state = CANCELLED
        except LonghaulError as error:
            state, trouble = FAILED, str(error)
        except Exception as error:
            log.exception("verification")
            state, trouble = FAILED, f"{type(error).__name__}: {error}"
        self._step(0, state=state, step="", trouble=trouble, certificate=certificate)

    def _measured(self, topology: Topology, wanted: Wanted, lanes: Sequence[str]) -> str:
        """Measure everything and file the certificate. Raises _Cancelled and what the tools raise."""
        before = replace(self._usecases.status(), topology=topology)
        allowed_ns, effective = time_tolerance.rtt_tolerance_ns(), topology.in_effect
        self._ping(effective, wanted, allowed_ns, before)
        for lane in lanes:
            self._step(0, step=f"impairments of {lane}")
            assert wanted.packets
            found = self._tools.prove(effective, wanted.packets, allowed_ns, lane)
            self._step(1, proofs=tuple(found))
            self._unless_cancelled()
        now = self._now
        made = rtt_certificate.certificate(
            before,
            self._usecases.status(),
            wanted.count,
            allowed_ns,
            now.pairs,
            now.unanswered,
            now.proofs,
            now.reasons,
        )
        return self._certificates.keep(made).id

    def _ping(self, topology: Topology, wanted: Wanted, allowed_ns: int, before: Status) -> None:
        def unanswered(pair: Unanswered) -> None:
            self._step(1, unanswered=(pair,), reasons=self._reasons(pair, before))
            self._unless_cancelled()

        self._step(0, step="round trips")
        with closing(self._tools.ping(topology, wanted, allowed_ns, unanswered)) as found:  # type: ignore[type-var]
            for pair in found:
                self._step(1, pairs=(pair,), reasons=self._reasons(pair, before))
                self._unless_cancelled()

    def _reasons(self, pair: Pair | Unanswered, before: Status) -> tuple[PairReasons, ...]:
        if isinstance(pair, Pair) and pair.passed:
            return ()
        late = lateness.now()
        why = pair_reasons.reasons(pair, before, self._usecases.status(), str(late) if late.busy else "")
        return (PairReasons(pair.one, pair.other, why),)

    @property
    def _now(self) -> Verification:
        assert self.last
        return self.last

    def _unless_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise _Cancelled

    def _step(
        self, finished: int, *, pairs: tuple[Pair, ...] = (), unanswered: tuple[Unanswered, ...] = (),
        proofs: tuple[Proof, ...] = (), reasons: tuple[PairReasons, ...] = (), **said: str | None,
    ) -> None:  # fmt: skip
        """Add what is new, and send it alone: with many pairs each event would else repeat all."""
        with self._telling:
            old = self._now
            newer: dict[str, Any] = {"finished": old.finished + finished, "version": old.version + 1}
            head = replace(old, **newer | said)
            if head.state == RUNNING and self._cancelled.is_set():
                head = replace(head, step=CANCELLING)
            self.last = replace(
                head, pairs=old.pairs + pairs, unanswered=old.unanswered + unanswered, proofs=old.proofs + proofs,
                reasons=old.reasons + reasons,
            )  # fmt: skip
            self._say(replace(head, pairs=pairs, unanswered=unanswered, proofs=proofs, reasons=reasons))


def _checked(topology: Topology, wanted: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The pairs in the order of the topology; all when none is wanted. Raises InputError."""
    there = rtt_certificate.pairs(topology)
    if strangers := [pair for pair in wanted if pair not in there and pair[::-1] not in there]:
        text = f"{' and '.join(strangers[0])} are no pair of hosts that reach one another here: see /api/matrix"
        raise InputError.single(text, "query", "pair")
    return tuple(pair for pair in there if not wanted or pair in wanted or pair[::-1] in wanted)


def _lanes(topology: Topology, wanted: Wanted) -> list[str]:
    """The lanes whose impairments are to be measured. Raises InputError where no host here can send packets."""
    if wanted.packets is None:
        return []
    ends = {name for pair in wanted.pairs for name in pair}
    found = [lane.name for lane in topology.virtual_lanes if lane.name in ends]
    if not found:
        text = "only virtual lanes have hosts here that can send packets: verify without impairments"
        raise InputError.single(text, "query", "impairments")
    return found
