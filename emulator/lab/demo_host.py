"""`longhaul serve --demo` on the host: boots a lab in real time and forwards a port of the host to its web server."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.errors import MissingError
from emulator.lab import boot
from emulator.lab.boot_options import BootOptions
from emulator.lab.build_cache import Progress
from emulator.lab.runtime import runtime_folder
from emulator.lab.serial_forward import Forward

MEMORY_BYTES = 2 << 30
COMMAND = ("python3", "-P", "-m", "emulator.cli.demo_server")


def serve(listen: tuple[str, int], report: Callable[[str], object], progress: Progress = lambda *_: None) -> int:
    """Serve until interrupted, or until the lab ends; returns its exit code. Calls `report` with the address."""
    with listening(listen) as listener, runtime_folder() as folder:
        lines = (folder / "to-lab", folder / "from-lab")
        for line in lines:
            os.mkfifo(line, 0o600)
        with _forwarding(listener, lines, report):
            options = BootOptions(
                real_time=True, memory_bytes=MEMORY_BYTES, serial=lines, stdout=lambda _: None
            )  # fmt: skip
            return boot.run(COMMAND, options, progress=progress)


@contextmanager
def listening(listen: tuple[str, int]) -> Iterator[socket.socket]:
    """A socket that listens at the address. Raises MissingError when it cannot."""
    try:
        made = socket.create_server(listen, family=socket.AF_INET6 if ":" in listen[0] else socket.AF_INET)
    except OSError as error:
        where = f"{listen[0]}:{listen[1]}"
        raise MissingError(f"cannot listen on {where}: {error.strerror}; choose another with --listen") from None
    with made:
        yield made


@contextmanager
def _forwarding(listener: socket.socket, lines: tuple[Path, Path], report: Callable[[str], object]) -> Iterator[None]:
    """Forward in a thread while the block runs."""
    host, port = listener.getsockname()[:2]
    outward, inward = (os.open(line, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for line in lines)
    ended = threading.Event()
    forward = Forward(inward, outward, listener=listener, on_hello=lambda: report(f"http://{host}:{port}/"))

    def run() -> None:
        while not ended.is_set():
            forward.step(0.2)

    thread = threading.Thread(target=run, name="forward")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        forward.close()
        os.close(outward)
        os.close(inward)
