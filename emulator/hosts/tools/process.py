"""Runs programs: the only user of subprocess outside the lab.

A program is a list of arguments, never a shell line, and its messages are English (LC_ALL=C). A program in a
namespace is started from a thread inside it, so a site's command costs one fork and one exec.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from emulator.errors import LateError, MeasureError, MissingError
from emulator.kernel import netns
from emulator.system.bounded_file import LONGEST_LINE_BYTES, OUTPUT
from emulator.system.lateness import Deadline
from emulator.units import format_size

CHUNK_BYTES = 1 << 16


class Completed(Struct, frozen=True):
    """A program that has ended."""

    argv: tuple[str, ...]
    stdout: str
    stderr: str
    exit_code: int

    def checked(self) -> Completed:
        """Return itself when the program succeeded. Raises MeasureError with the program's last message."""
        if self.exit_code:
            words = (self.stderr.strip() or self.stdout.strip() or "it printed nothing").splitlines()[-1]
            raise MeasureError(f"{' '.join(self.argv)} ended with {self.exit_code}: {words}")
        return self


class Running:
    """A running program and a context manager: leaving the block ends the program if it still runs."""

    def __init__(self, argv: Sequence[str], namespace: str | None = None, *, listens: bool = False) -> None:
        self.argv = tuple(argv)
        inside = netns.inside(namespace) if namespace else contextlib.nullcontext()
        # Our own pipe: `wait` would close Popen's, and its end may be a signal to the program.
        self._stdin: int | None = None
        self._printed = bytearray(), bytearray()
        if listens:
            stdin, self._stdin = os.pipe()
        else:
            stdin = os.open(os.devnull, os.O_RDONLY)
        try:
            with inside:
                self._popen = subprocess.Popen(
                    self.argv,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,
                )
        except FileNotFoundError as gone:
            self.close_stdin()
            raise MissingError(f"{argv[0]} is not installed: run scripts/install") from gone
        finally:
            os.close(stdin)

    def say(self, line: str) -> None:
        """Write a line to a program that was started with `listens`. Raises BrokenPipeError when it has ended."""
        assert self._stdin is not None
        os.write(self._stdin, f"{line}\n".encode())

    def close_stdin(self) -> None:
        """Close the program's input."""
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    def read_line(self, timeout_s: float) -> str:
        """The next line of its output; "" at its end, and when no line comes within `timeout_s`, or the longer time
        that a busy machine needs."""
        assert self._popen.stdout is not None
        fd, line, deadline = self._popen.stdout.fileno(), b"", Deadline(timeout_s)
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([fd], [], [], deadline.left_s())
            if not ready and not deadline.passed():
                continue
            byte = os.read(fd, 1) if ready else b""
            if not byte:
                return ""
            line += byte
            self._refuse_longer(line)
        return line.decode(errors="replace").removesuffix("\n")

    def running(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    def ends_within(self, timeout_s: float) -> bool:
        """Whether it ends by itself in this time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout_s)
        return not self.running()

    def lines(self) -> Iterator[str]:
        """Its output, line by line as it is printed, until it ends. A line without an end raises MeasureError."""
        assert self._popen.stdout
        while line := self._popen.stdout.readline(LONGEST_LINE_BYTES + 1):
            self._refuse_longer(line)
            yield line.decode(errors="replace")

    def lines_so_far(self) -> list[str]:
        """The lines that it has printed since the last call, without waiting for more.

        It waits with its output when nobody has read 64 KiB of it (pipe(7)). A line without an end raises MeasureError.
        """
        assert self._popen.stdout
        fd, printed = self._popen.stdout.fileno(), self._printed[0]
        os.set_blocking(fd, False)
        with contextlib.suppress(BlockingIOError):
            printed += os.read(fd, CHUNK_BYTES)
        whole, end, rest = bytes(printed).rpartition(b"\n")
        self._refuse_longer(rest)
        printed[:] = rest
        return whole.decode(errors="replace").split("\n") if end else []

    def _refuse_longer(self, line: bytes) -> None:
        if len(line) > LONGEST_LINE_BYTES:
            self.terminate()
            raise self._too_much(f"a line of more than {format_size(LONGEST_LINE_BYTES)}")

    def _too_much(self, what: str) -> MeasureError:
        return MeasureError(
            f"{' '.join(self.argv)} printed {what}: Longhaul ended it; run it by hand to see what it says"
        )

    def wait(self, timeout_s: float) -> Completed:
        """Its output after its end. After `timeout_s`, or the longer time that a busy machine needs, the program is
        killed and LateError raised; MeasureError when it prints more than a program's output may have."""
        out, err = self._output(Deadline(timeout_s))
        self.close_stdin()
        return Completed(self.argv, out.decode(errors="replace"), err.decode(errors="replace"), self._popen.returncode)

    def _output(self, deadline: Deadline) -> tuple[bytearray, bytearray]:
        pipes = self._popen.stdout, self._popen.stderr
        with selectors.DefaultSelector() as open_pipes:
            for pipe, printed in zip(pipes, self._printed, strict=True):
                if pipe and not pipe.closed:
                    open_pipes.register(pipe, selectors.EVENT_READ, (pipe, printed))
            while open_pipes.get_map():
                for key, _ in open_pipes.select(deadline.left_s()):
                    self._take(key, open_pipes)
                self._refuse_late(deadline)
        while True:
            try:
                self._popen.wait(deadline.left_s())
            except subprocess.TimeoutExpired:
                self._refuse_late(deadline)
            else:
                return self._printed

    def _take(self, key: selectors.SelectorKey, open_pipes: selectors.BaseSelector) -> None:
        """Keep what a pipe holds; at its end, close it."""
        pipe, printed = key.data
        if not (data := os.read(key.fd, CHUNK_BYTES)):
            open_pipes.unregister(pipe)
            pipe.close()
        printed += data
        if sum(map(len, self._printed)) > OUTPUT.most_bytes:
            self.terminate()
            raise self._too_much(f"more than {format_size(OUTPUT.most_bytes)}")

    def _refuse_late(self, deadline: Deadline) -> None:
        if deadline.passed():
            self.terminate()
            raise LateError(f"{' '.join(self.argv)} did not end within {deadline}")

    def interrupt(self) -> None:
        """Interrupt it as Ctrl-C does; its output can still be read."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill it and its children now; its output can still be read."""
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def terminate(self) -> None:
        """Kill it and its children now, and discard its output."""
        self.kill()
        for pipe, printed in zip((self._popen.stdout, self._popen.stderr), self._printed, strict=True):
            assert pipe
            pipe.close()
            printed.clear()
        self.close_stdin()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self._popen.returncode is None:
            self.terminate()


def attached(argv: Sequence[str]) -> int:
    """Run a program with our own input and output. Returns its exit code as a shell does: 128 + n after signal n.

    Raises MissingError when it is not installed.
    """
    try:
        code = subprocess.run(argv, check=False).returncode
    except (FileNotFoundError, PermissionError) as error:
        raise MissingError(f"{argv[0]} cannot be run: {error.strerror}") from None
    return code if code >= 0 else 128 - code


class ProgramHost(Protocol):
    """A place that runs programs: this machine, one of its namespaces, or another machine."""

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program there to its end. Raises MissingError, MeasureError."""

    def start(self, argv: Sequence[str]) -> Running:
        """Start a program there. Raises MissingError."""


def start(argv: Sequence[str], namespace: str | None = None) -> Running:
    """Start a program, in the namespace if one is named. Raises MissingError when it is not installed."""
    return Running(argv, namespace)


def run(argv: Sequence[str], timeout_s: float, namespace: str | None = None) -> Completed:
    """Run a program to its end. Raises MissingError when not installed, LateError after `timeout_s`."""
    with start(argv, namespace) as program:
        return program.wait(timeout_s)
