"""A machine on paper on which every plan fails, or is left half done, at each of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import fields

import pytest

from emulator.control.reconcile import apply
from emulator.errors import KernelError
from emulator.kernel.fake import FakeKernel
from emulator.model.topology import Topology
from emulator.plan.desired_state import wanted
from emulator.plan.planner import plan
from emulator.plan.state import State


def go(kernel: FakeKernel, topology: Topology) -> State:
    """Bring it up; what is there then."""
    have = kernel.observe()
    apply(kernel, wanted(topology, have), have)
    return kernel.observe()


def failed(kernel: FakeKernel, topology: Topology) -> Iterator[FakeKernel]:
    """The machine after an `up` that failed at its first step, then at its second, and so on."""
    have = kernel.observe()
    for step in range(len(plan(wanted(topology, have), have))):
        broken = _copied(kernel)
        broken.fail_at = len(broken.log) + step
        with pytest.raises(KernelError, match="injected"):
            go(broken, topology)
        yield broken


def killed(kernel: FakeKernel, topology: Topology) -> Iterator[FakeKernel]:
    """The machine after an `up` that was killed before its first step, before its second, and so on."""
    have, left = kernel.observe(), _copied(kernel)
    for step in plan(wanted(topology, have), have):
        yield _copied(left)
        left.apply(step.op)


def _copied(kernel: FakeKernel) -> FakeKernel:
    """The same once more: its tables change, what stands in them never does."""
    return FakeKernel(**{field.name: copy(getattr(kernel, field.name)) for field in fields(kernel)})
