"""Make the kernel match a state, or leave it as it was."""

from __future__ import annotations

from .errors import VerifyError
from .kernel import Kernel
from .ops import Step
from .plan import plan
from .state import State


def converge(kernel: Kernel, want: State, have: State) -> list[Step]:
    """Plan, apply, and verify by observing again. Raises KernelError, or VerifyError when it is not as asked."""
    steps = plan(want, have)
    for step in steps:
        kernel.apply(step.op)
    if steps and (left := plan(want, kernel.observe())):
        raise VerifyError("accepted by the kernel, yet different:\n" + "\n".join(f"  {s.op}" for s in left))
    return steps


def apply(kernel: Kernel, want: State, have: State) -> list[Step]:
    """`converge` from the snapshot `have`; any failure, an interrupt too, plans back to the snapshot."""
    try:
        return converge(kernel, want, have)
    except BaseException:
        converge(kernel, have, kernel.observe())
        raise
