"""Waits for what is to be reverted, an unconfirmed change or a lease whose holder was killed, and reverts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from emulator.control.intent_store import IntentStore
from emulator.system.clock import Clock

GLANCE_S = 5.0
"""How often a waiting process checks whether there is still something to revert."""

LONGEST_RETRY_S = 60.0


class Expiring(Protocol):
    """Reverts what is overdue; False when nothing is."""

    def expire(self) -> bool: ...


def wait_and_expire(
    store: IntentStore,
    appliance: Callable[[], Expiring],
    clock: Clock,
    sleep: Callable[[float], None],
    report: Callable[[str], None],
) -> None:
    """Wait until nothing is pending, reverting what is overdue. It reports a failure and tries again."""
    retry_s = 1.0
    while pending := store.pending():
        if pending.leased:
            # No check meanwhile: where clocks are virtual, each would show in the measurement.
            store.await_lease_end()
        elif (left_ns := pending.left_ns(clock)) > 0:
            sleep(min(left_ns / 1e9, GLANCE_S))
            continue
        try:
            if not appliance().expire() and pending.leased:
                return  # returned; a new lease has a process of its own
        except Exception as error:  # of whatever kind: nobody else may be there to revert it
            report(f"cannot revert the unconfirmed change: {type(error).__name__}: {error}")
            sleep(retry_s)
            retry_s = min(2 * retry_s, LONGEST_RETRY_S)
