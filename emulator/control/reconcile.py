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

    `look` observes the part of the kernel that the two states describe, where that is not all of it.
    """
    try:
        return converge(kernel, want, have, look)
    except BaseException:
        converge(kernel, have, (look or kernel.observe)(), look)
        raise
