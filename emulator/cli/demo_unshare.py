"""`longhaul serve --demo --here`: the demo on this machine's kernel, in real time, through netem or the wire engine.

It runs in its own namespaces for processes, mounts and network: it sees no port and no lane of the machine and keeps
its state in memory. The kernel removes all of it when the demo ends, however it ends.

Three processes: the launcher, which takes the signals; `python3 -m emulator.cli.demo_unshare`, the first process of the
namespaces, which reaps every process that is left over there; and the demo's server.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

from emulator.errors import MissingError

SETTLE = """
mount -t tmpfs -o mode=0755 tmpfs /run && mount -t sysfs sysfs /sys && ip link set lo up && exec "$@"
"""
"""Prepares the namespaces: a /run without the machine's namespaces and engines, and a /sys of their own network."""

END_S = 10.0
"""How long the server may take to end in order, in seconds; nothing of it lasts anyway."""


def serve(listener: socket.socket) -> int:
    """Run the demo on a socket of the machine's network until SIGTERM or SIGINT; returns its exit code. A second signal
    ends it at once.

    Raises MissingError when it cannot start.
    """
    if os.geteuid() != 0:
        raise MissingError("the demo on this machine needs root; without --here it runs in the lab and needs no root")
    watched, held = os.pipe()
    for fd in (listener.fileno(), watched):
        os.set_inheritable(fd, True)
    apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    first = [sys.executable, "-m", "emulator.cli.demo_unshare", str(listener.fileno()), str(watched)]
    environment = os.environ | {"LONGHAUL_STATE": "/run/longhaul-demo"}
    with os.fdopen(held, "wb", buffering=0) as alive:
        try:
            demo = os.posix_spawnp("unshare", [*apart, "sh", "-c", SETTLE, "sh", *first], environment)
        except OSError as error:
            raise MissingError(f"cannot start unshare: {error.strerror}; install util-linux") from None
        finally:
            os.close(watched)

        def end(*_: object) -> None:
            if alive.closed:
                os.kill(demo, signal.SIGKILL)
            alive.close()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        return _shell_code(os.waitstatus_to_exitcode(os.waitpid(demo, 0)[1]))


def keep(listening: int, watched: int) -> int:
    """As the first process of the namespaces: run the server until it ends or the launcher does; returns its exit code.

    Orphans (engines, watchers of leases) become this process's children. It reaps each as it ends.
    """
    os.set_inheritable(watched, False)
    server = os.fork()
    if server == 0:
        os.execv(sys.executable, [sys.executable, "-m", "emulator.cli.demo_server", str(listening)])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the server too, and its end is this one's
    threading.Thread(target=_end_with_launcher, args=(watched, server), daemon=True).start()
    while True:
        pid, status = os.wait()
        if pid == server:
            return _shell_code(os.waitstatus_to_exitcode(status))


def _end_with_launcher(watched: int, server: int) -> None:
    """End the server once the launcher has closed its end of the pipe, or is gone."""
    while os.read(watched, 1):
        pass
    os.kill(server, signal.SIGTERM)
    threading.Event().wait(END_S)
    os.kill(server, signal.SIGKILL)


def _shell_code(code: int) -> int:
    """An exit code as a shell tells it: 128 + n after signal n."""
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(keep(*(int(fd) for fd in sys.argv[1:])))
