"""Starts the wire engine, one process for each lane, and talks to it through its socket.

The socket's name marks the engine: RUN/<namespace>-<bridge>.sock. After a kill -9 the file remains without a listener;
`observe` reports such an engine as dead, and `stop` removes the file. This module keeps no state between calls.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import struct
import subprocess
from itertools import islice
from pathlib import Path
from typing import Any

from emulator.errors import KernelError, MissingError
from emulator.kernel.protocol import QueueCounters
from emulator.plan import engine_ops
from emulator.plan.engine_lane import DEAD, Wire, decode, directions, encode

RUN = Path("/run/longhaul/wire")
"""Only root may read it; it lasts until the machine restarts, like the engines."""

ENGINE = Path(__file__).parent.parent / "engine"
BINARY = next(filter(Path.exists, [ENGINE / "longhaul-wire"]), ENGINE / "target/release/longhaul-wire")
"""The binary in the wheel, else the one that scripts/install builds; $LONGHAUL_WIRE names another."""

BUILD = f"cargo build --release --manifest-path {ENGINE}/Cargo.toml"
"""Builds the engine where there is no clone."""

ANSWER_S = 60.0
"""An engine answers within milliseconds, except while it allocates gigabytes for a longer delay line, which may take
a virtual machine's host a while."""

END_S = 5.0
"""An engine that has not ended this long after the request is killed."""

GET, STATS = {"op": "get"}, {"op": "stats"}
LONGEST_ANSWER = 4 << 20
"""The longest request: a table of jitter in every flow of both directions."""

AT_ONCE = 64
"""So many engines are asked at the same time: each takes a descriptor, of which a process may have 1024."""

Answers = list[dict[str, Any]]


def program() -> str:
    """The engine's binary, which need not be there."""
    return os.environ.get("LONGHAUL_WIRE") or str(BINARY)


def refused() -> str:
    """Why the engine's binary cannot be run here; "" when it can: without a configuration it only tells its usage."""
    try:
        done = subprocess.run([program()], input="", text=True, capture_output=True, timeout=ANSWER_S, check=False)
    except OSError as error:
        return str(error.strerror)
    except subprocess.TimeoutExpired:
        return "it does not answer"
    return "" if "longhaul-wire" in done.stderr else "it is another program"


def observe() -> dict[str, Wire]:
    """The lanes of this namespace with an engine, running or dead, by their bridge."""
    return {bridge: _wire(answers) for bridge, answers in _answers_of_all(sockets(), GET).items()}


def _wire(answers: Answers) -> Wire:
    try:
        return decode(answers[0]["config"])
    except (IndexError, ValueError, KeyError, TypeError):
        return DEAD


def counters() -> dict[str, QueueCounters]:
    """The engines' counters, by the egress port of each direction."""
    found = {}
    for answers in _answers_of_all(sockets(), GET, STATS).values():
        with contextlib.suppress(ValueError, KeyError):
            said, counted = answers
            config, stats = said["config"], counted["stats"]
            found[config["site"]] = _counted(stats["outbound"])
            found[config["hub"]] = _counted(stats["inbound"])
    return found


def stats(bridge: str) -> dict[str, Any]:
    """All counters of a lane's engine, including lateness, by direction. Raises OSError when there is none."""
    answer: dict[str, Any] = _ask(_path(bridge), STATS)["stats"]
    return answer


def watch(bridge: str) -> int:
    """A descriptor (pidfd) that becomes readable when a lane's engine ends. Raises OSError when there is none."""
    with _connected(_path(bridge)) as there:
        return os.pidfd_open(_pid(there))


def start(op: engine_ops.StartWire) -> None:
    """Start an engine and wait until it works. Raises KernelError, or MissingError when it was not built."""
    RUN.mkdir(mode=0o700, parents=True, exist_ok=True)
    binary = program()
    if op.bridge in sockets():
        raise KernelError(op, errno.EADDRINUSE, "there is one already")
    try:
        done = subprocess.run(
            [binary, str(_path(op.bridge))], input=json.dumps(encode(op.bridge, op.wire)), text=True,
            capture_output=True, timeout=ANSWER_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise MissingError(
            f"the wire engine is not built ({binary}): run scripts/install in a clone; for an installed package, "
            f"{BUILD}, and set LONGHAUL_WIRE to the binary"
        ) from None
    except subprocess.TimeoutExpired:
        raise KernelError(op, errno.ETIMEDOUT, f"the wire engine did not work within {ANSWER_S:g} s") from None
    if done.returncode:
        raise KernelError(op, errno.EIO, done.stderr.strip() or "the wire engine printed nothing")


def change(op: engine_ops.SetWire) -> None:
    """Change a lane in use. Raises KernelError; then nothing changed."""
    answer = _ask(_path(op.bridge), {"op": "set", **directions(op.wire)})
    if not answer.get("ok"):
        raise KernelError(op, errno.EINVAL, str(answer.get("error")))


def stop(op: engine_ops.StopWire) -> None:
    """End an engine, by force when it does not answer, or remove a dead one's file. Returns when it has ended."""
    path = _path(op.bridge)
    with contextlib.suppress(ConnectionRefusedError, FileNotFoundError), _connected(path) as there:
        _end(there)
    path.unlink(missing_ok=True)


def _end(there: socket.socket) -> None:
    try:
        process = os.pidfd_open(_pid(there))
    except ProcessLookupError:
        return
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has just ended by itself
            there.sendall(b'{"op":"stop"}\n')
        ended = select.poll()
        ended.register(process, select.POLLIN)
        if not ended.poll(END_S * 1000):
            signal.pidfd_send_signal(process, signal.SIGKILL)
            ended.poll(END_S * 1000)
    finally:
        os.close(process)


def _counted(one: dict[str, Any]) -> QueueCounters:
    ours = one["limit"] + one["refused"]
    drops = ours + one["buffer"] + one["lost"]
    late = tuple((above, count) for above, count in one["lateness_ns"])
    flows = tuple(_counted(flow) for flow in one.get("flows", ()))
    refused = tuple(one.get("not_permitted", ()))
    sent, size, queued = one["sent"], one["sent_bytes"], one["queued"]
    return QueueCounters(sent, size, drops, queued, 0, one["buffer"], one["lost"], late, flows, refused)


def _prefix() -> str:
    """The namespace of the lanes: two namespaces may have lanes of the same name."""
    return f"{Path('/proc/thread-self/ns/net').stat().st_ino}-"


def _path(bridge: str) -> Path:
    return RUN / f"{_prefix()}{bridge}.sock"


def sockets() -> dict[str, Path]:
    """The sockets of this namespace's engines, running or dead, by bridge."""
    prefix = _prefix()
    try:
        names = [path.name for path in RUN.iterdir()]
    except (FileNotFoundError, PermissionError):
        return {}
    ours = (name for name in names if name.startswith(prefix) and name.endswith(".sock"))
    return {name.removeprefix(prefix).removesuffix(".sock"): RUN / name for name in ours}


def _connected(path: Path) -> socket.socket:
    there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        there.settimeout(ANSWER_S)
        there.connect(str(path))
    except OSError:
        there.close()
        raise
    return there


def _pid(there: socket.socket) -> int:
    """The process at the other end."""
    credentials = there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[0])


def _ask(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """One request and its answer. Raises OSError or ValueError."""
    with _connected(path) as there:
        _send(there, request)
        return _received(there, 1)[0]


def _answers_of_all(paths: dict[str, Path], *requests: dict[str, Any]) -> dict[str, Answers]:
    """The same requests to all engines, and the answers of each; none of a dead one.

    One engine answers while the next is asked: in turn, each of them would be waited for.
    """
    found: dict[str, Answers] = {bridge: [] for bridge in paths}
    bridges = iter(paths)
    while some := list(islice(bridges, AT_ONCE)):
        with contextlib.ExitStack() as connections:
            asked = {}
            for bridge in some:
                with contextlib.suppress(OSError):
                    asked[bridge] = connections.enter_context(_connected(paths[bridge]))
                    _send(asked[bridge], *requests)
            for bridge, there in asked.items():
                with contextlib.suppress(OSError, ValueError):
                    found[bridge] = _received(there, len(requests))
    return found


def _send(there: socket.socket, *requests: dict[str, Any]) -> None:
    there.sendall(b"".join(json.dumps(request).encode() + b"\n" for request in requests))


def _received(there: socket.socket, count: int) -> Answers:
    """So many answers. Raises OSError or ValueError."""
    answer = b""
    while answer.count(b"\n") < count:
        part = there.recv(65536)
        if not part or len(answer) > LONGEST_ANSWER * count:
            raise ValueError("the engine closed the connection")
        answer += part
    return [json.loads(line) for line in answer.splitlines()]
