"""Make the kernel match a state, or change nothing."""

from __future__ import annotations

from collections.abc import Callable

from emulator.errors import VerifyError
from emulator.kernel.protocol import Kernel
from emulator.plan.ops import Step
from emulator.plan.planner import plan
from emulator.plan.state import State

Look = Callable[[], State]
"""Observes the kernel, or the part of it that the states describe."""


class UnsettledError(VerifyError):
    """A NIC changed its number of queues when it came up: what was planned for it is not what it needs now.

    Drivers such as igb create all queues they could have, and decide how many they use when the port first comes up.
    """


def converge(kernel: Kernel, want: State, have: State, look: Look | None = None) -> list[Step]:
    """Plan, apply, and verify by observing again. Raises KernelError, or VerifyError when the kernel differs."""
    steps = plan(want, have)
    for step in steps:
        kernel.apply(step.op)
    if steps and (left := plan(want, (look or kernel.observe)())):
        raise VerifyError(
            "the kernel accepted the change, but it reads back differently:\n" + "\n".join(f"  {s.op}" for s in left)
        )
    return steps


def apply(kernel: Kernel, want: State, have: State, look: Look | None = None) -> list[Step]:
    """`converge` from the snapshot `have`; any failure or interrupt plans back to the snapshot.

    `look` observes the part of the kernel that the two states describe, where that is not all of it. Raises
    UnsettledError where a new plan from what is observed now may succeed.
    """
    try:
        return converge(kernel, want, have, look)
    except BaseException as failure:
        now = (look or kernel.observe)()
        converge(kernel, have, now, look)
        if isinstance(failure, VerifyError) and look is None and _queues(now, want) != _queues(have, want):
            raise UnsettledError(*failure.args) from failure
        raise


def _queues(state: State, want: State) -> dict[str, int]:
    """The number of TX queues of each NIC that is to be a port."""
    return {name: nic.tx_queues for name, nic in state.machine.nics.items() if name in want.ports}
