"""Make the kernel match a state, or leave it as it was."""

from __future__ import annotations

from collections.abc import Callable

from emulator.errors import VerifyError
from emulator.kernel.protocol import Kernel
from emulator.plan.ops import Step
from emulator.plan.planner import plan
from emulator.plan.state import State

Look = Callable[[], State]
"""Observes the kernel, or that part of it which the states are about."""


def converge(kernel: Kernel, want: State, have: State, look: Look | None = None) -> list[Step]:
    """Plan, apply, and verify by observing again. Raises KernelError, or VerifyError when it is not as asked."""
    steps = plan(want, have)
    for step in steps:
        kernel.apply(step.op)
    if steps and (left := plan(want, (look or kernel.observe)())):
        raise VerifyError("accepted by the kernel, yet different:\n" + "\n".join(f"  {s.op}" for s in left))
    return steps


def apply(kernel: Kernel, want: State, have: State, look: Look | None = None) -> list[Step]:
    """`converge` from the snapshot `have`; any failure, an interrupt too, plans back to the snapshot.

    `look` observes what the two states are about when that is not everything.
    """
    try:
        return converge(kernel, want, have, look)
    except BaseException:
        converge(kernel, have, (look or kernel.observe)(), look)
        raise
