"""The real kernel made to fail, and the way from any state to any other."""

from __future__ import annotations

from emulator.control.reconcile import apply
from emulator.errors import KernelError
from emulator.kernel.netlink import NetlinkKernel
from emulator.kernel.protocol import Kernel
from emulator.model.topology import Topology
from emulator.plan.desired_state import wanted
from emulator.plan.ops import Op


class FailingKernel(NetlinkKernel):
    """The real kernel, with one operation that fails."""

    fail_at: int | None = None
    """The operation that fails, counted from 0."""

    def apply(self, op: Op) -> None:
        if self.fail_at == 0:
            self.fail_at = None
            raise KernelError(op, 5, "injected")
        if self.fail_at is not None:
            self.fail_at -= 1
        super().apply(op)


def go(kernel: Kernel, topology: Topology) -> None:
    """Bring it up; what is there then is what is wanted."""
    have = kernel.observe()
    apply(kernel, wanted(topology, have), have)
    after = kernel.observe()
    assert after == wanted(topology, after)
