"""An engine that ends by itself while it is told to end, and one that does not begin to work."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.errors import KernelError
from emulator.kernel import engine_client
from emulator.plan.engine_lane import Wire
from emulator.plan.engine_ops import StartWire, StopWire
from emulator.plan.qdisc_values import Egress, Netem

LISTEN = """
import socket, sys
there = socket.socket(socket.AF_UNIX)
there.bind(sys.argv[1])
there.listen()
print(flush=True)
sys.stdin.read()
"""


def test_one_that_dies_between_the_connection_and_the_request_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_client, "RUN", tmp_path)
    argv = [sys.executable, "-c", LISTEN, str(engine_client._path("lane"))]
    open_pidfd = os.pidfd_open
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout
        engine.stdout.readline()

        def opened_and_dead(pid: int) -> int:
            fd = open_pidfd(pid)
            engine.kill()
            select.select([fd], [], [])
            return fd

        monkeypatch.setattr(os, "pidfd_open", opened_and_dead)
        engine_client.stop(StopWire("lane"))
    assert list(tmp_path.iterdir()) == []


def test_one_whose_socket_is_gone_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_client, "RUN", tmp_path)
    engine_client.stop(StopWire("lane"))


def test_one_that_does_not_begin_to_work_in_time_is_an_error_of_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "engine"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setenv("LONGHAUL_WIRE", str(program))
    monkeypatch.setattr(engine_client, "RUN", tmp_path / "run")
    monkeypatch.setattr(engine_client, "ANSWER_S", 0.2)
    egress = Egress(Netem())
    with pytest.raises(KernelError, match=r"did not work within 0\.2 s") as slow:
        engine_client.start(StartWire("lane", Wire("a", "b", egress, egress, (1, 1))))
    assert slow.value.errno == errno.ETIMEDOUT
