"""Every operation of a plan is known everywhere: to the real kernel, to the fake one, and as a printed command."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import pytest

from emulator.kernel import fake_qdiscs, qdisc_messages
from emulator.kernel.fake import FakeKernel
from emulator.kernel.netlink import NetlinkKernel
from emulator.plan import engine_ops, ops, qdisc_ops

OPS = get_args(ops.Op)
HELPERS = {ops.Step}
"""Classes of the modules of operations that are none."""


def _registered(dispatch: Any, op: type) -> bool:
    return dispatch.dispatch(op) is not dispatch.dispatch(object)


def test_op_holds_every_operation_that_is_defined() -> None:
    modules = (ops, qdisc_ops, engine_ops)
    defined = {
        one
        for module in modules
        for _, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__
    }
    assert set(OPS) == defined - HELPERS


@pytest.mark.parametrize("kernel", [NetlinkKernel, FakeKernel])
@pytest.mark.parametrize("op", OPS)
def test_both_kernels_perform_every_operation(op: type, kernel: type) -> None:
    assert _registered(vars(kernel)["_do"].dispatcher, op)


@pytest.mark.parametrize("op", get_args(qdisc_messages.MessageOp))
def test_every_change_of_queues_is_a_message(op: type) -> None:
    assert _registered(qdisc_messages.messages, op)


@pytest.mark.parametrize("op", get_args(qdisc_ops.QueueOp))
def test_the_fake_knows_every_change_of_queues(op: type) -> None:
    assert _registered(fake_qdiscs.changed, op)


@pytest.mark.parametrize("op", OPS)
def test_every_operation_prints_as_a_command(op: type) -> None:
    assert "__str__" in vars(op)
