"""`longhaul serve --demo` on the host: a lab in real time, whose web server is reached by a port of the host."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import MissingError
from . import boot, image, kernel
from .cache import Progress
from .forward import Forward

MEMORY = "2G"
COMMAND = ("python3", "-m", "emulator.demo")


def serve(listen: tuple[str, int], tell: Callable[[str], object], progress: Progress = lambda *_: None) -> int:
    """Serve until interrupted, or until the lab ends; returns its exit code. `tell` is called with the address."""
    linux, root = kernel.build(progress), image.build(progress)
    with _listener(listen) as listener, boot._runtime_folder() as runtime, boot._cpu(None) as cpu:
        lines = [runtime / "to-lab", runtime / "from-lab"]
        for line in lines:
            os.mkfifo(line, 0o600)
        spec = boot._spec(COMMAND, runtime, {}, 1, runtime, real_time=True)
        (runtime / "spec.json").write_text(json.dumps(spec))
        # The kernel's command line names descriptors; the shell opens them, for the lab is started without any.
        opened = ["sh", "-c", 'exec "$@" 8<>"$0/to-lab" 9<>"$0/from-lab"', str(runtime)]
        argv = [*opened, *boot._pinned(cpu), *boot._kernel_argv(linux, root, runtime, MEMORY)]
        with (
            boot._Guest([*argv, "con0=null,fd:1", "ssl0=fd:8,fd:9"], runtime) as guest,
            _forwarding(listener, lines, tell),
        ):
            sinks = (lambda _: None, boot._to(2))
            return guest.follow(sinks, None, None, " ".join(COMMAND))


@contextmanager
def _listener(listen: tuple[str, int]) -> Iterator[socket.socket]:
    try:
        made = socket.create_server(listen, family=socket.AF_INET6 if ":" in listen[0] else socket.AF_INET)
    except OSError as error:
        where = f"{listen[0]}:{listen[1]}"
        raise MissingError(f"cannot listen on {where}: {error.strerror}; choose another with --listen") from None
    with made:
        yield made


@contextmanager
def _forwarding(listener: socket.socket, lines: list[Path], tell: Callable[[str], object]) -> Iterator[None]:
    """Forward in a thread of its own for as long as the body runs."""
    host, port = listener.getsockname()[:2]
    outward, inward = (os.open(line, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for line in lines)
    ended = threading.Event()
    forward = Forward(inward, outward, listener=listener, on_hello=lambda: tell(f"http://{host}:{port}/"))

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
