"""The two ends of a program that runs over a lane: their working folders, the server, and the client's timed runs.

Everything happens through `Host`, so that a namespace and an SSH host behave alike. Each end works in a new folder
below /tmp of its host, which is deleted at the end.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath

from msgspec import Struct

from emulator import units
from emulator.errors import LateError, LonghaulError, MeasureError
from emulator.hosts.host import Host
from emulator.hosts.tools import program_root
from emulator.hosts.tools.process import Completed, Running
from emulator.model.program import Program, Ready, filled
from emulator.system.lateness import Deadline

READY_S = 60.0
"""How long a server may take until it is ready."""
POLL_S = 0.01
TAIL_BYTES = 64 << 10
"""Of each output that the run folder gets."""
MOST_KEPT_BYTES = 16 << 20
"""Of the files that one end keeps."""
BATCH_CHARACTERS = 16 << 10
"""Of the texts that one command writes: over SSH all of it is one argument, of 128 KiB at most (MAX_ARG_STRLEN)."""
FULL_KIB = 4
_QUICK_S = 30.0

_MAKE = ("mktemp", "-d", "/tmp/longhaul-program-XXXXXX")
_INTO = 'cd "$1" && out="$2" && shift 2 && exec "$@" >"$out.out" 2>"$out.err" </dev/null'
"""Runs a command in a folder; its output goes into two files there."""
_TIMED = """cd "$1" || exit 125
shift
before=$(date +%s%N)
"$@" >client.out 2>client.err </dev/null
code=$?
echo "$before $(date +%s%N) $code"
"""
"""The same, and when it began and ended by the host's own clock, which no connection to the host delays."""
_WRITE = """mkdir -p "$1" && cd "$1" || exit
shift
while [ $# -gt 0 ]; do
    case $1 in */*) mkdir -p -- "${1%/*}" || exit ;; esac
    printf %s "$2" >"$1" || exit
    shift 2
done
"""
"""Writes files into a folder: their names, each followed by its text."""
_AS_USER = 'user=$1; shift; exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"'
"""Not runuser: it needs PAM, which small systems lack."""
_COPY = """mkdir "$2" && cd "$1" || exit 1
for name in * .[!.]*; do
    case $name in
    run-* | sockets.*) ;;
    *) [ ! -e "$name" ] || cp -a --reflink=auto "$name" "$2"/ || exit 1 ;;
    esac
done
"""
_KEEP = """cd "$1" || exit 1
shift
for pattern in "$@"; do
    for file in $pattern; do
        [ -f "$file" ] && printf '%s\\n' "$file" && base64 -w 0 "$file" && echo
    done
done
:
"""


class TimedRun(Struct, frozen=True):
    """One run of the client, by its host's clock (ns since 1970)."""

    began_ns: int
    ended_ns: int
    exit_code: int


class ProgramEnd:
    """One end: a host, and its working folder. `values` are those of the placeholders."""

    def __init__(self, host: Host, folder: str, program: Program, values: Mapping[str, str]) -> None:
        self.host, self.folder, self.program, self.values = host, folder, program, values

    def place(self, name: str) -> str:
        """The path of something in the folder."""
        return str(PurePosixPath(self.folder) / name)

    def write_files(self, folder: str) -> None:
        """Write the program's files, with their placeholders filled in; make the folder unless it is there."""
        for files in _batches([(name, filled(text, self.values)) for name, text in self.program.files.items()]):
            argv = ["sh", "-c", _WRITE, "longhaul", folder, *(word for file in files for word in file)]
            self.host.run(argv, _QUICK_S).checked()

    def prepare(self, key: str, timeout_s: float) -> None:
        """Run the command of that key to its end, if there is one. Raises MeasureError."""
        if command := getattr(self.program, key):
            argv = ["sh", "-c", _INTO, "longhaul", self.folder, key, *self.shell(command)]
            done = self.host.run(argv, timeout_s)
            if done.exit_code:
                raise MeasureError(f"the command {key} ended with {done.exit_code}: {self.last_words(key)}")

    def shell(self, command: str, **more: str) -> list[str]:
        """The arguments that run a command of the user, as the program's user and in its environment."""
        given = [f"{name}={value}" for name, value in self.program.environment.items()]
        user = ["sh", "-c", _AS_USER, "longhaul", self.program.user] if self.program.user else []
        shell = [*user, *(["env", *given] if given else []), "sh", "-c", filled(command, {**self.values, **more})]
        return program_root.inside(shell)

    def last_words(self, *names: str) -> str:
        """The last line that a command printed, on stderr if it can be; for a message."""
        for name in names:
            for suffix in ("err", "out"):
                if lines := self.tail(f"{name}.{suffix}").strip().splitlines():
                    return lines[-1].strip()[:500]
        return "the disk of its working folder is full" if self._is_full() else "it printed nothing"

    def _is_full(self) -> bool:
        """Whether the folder has no room, not even for a message."""
        rows = self.host.run(["df", "-P", "-k", self.folder], _QUICK_S).stdout.splitlines()
        return len(rows) > 1 and int(rows[-1].split()[3]) < FULL_KIB

    def tail(self, name: str) -> str:
        """The end of a file in the folder; "" when it is not there."""
        try:
            return self.host.read(self.place(name), TAIL_BYTES)
        except MeasureError:
            return ""

    def kept(self, folder: str) -> dict[str, bytes]:
        """The files that the user wants to keep, by path. Raises MeasureError when they are too large."""
        if not self.program.keep:
            return {}
        text = self.host.run(["sh", "-c", _KEEP, "longhaul", folder, *self.program.keep], _QUICK_S).stdout
        if len(text) > MOST_KEPT_BYTES * 4 // 3:
            limit = units.format_size(MOST_KEPT_BYTES)
            raise MeasureError(f"keep: {', '.join(self.program.keep)}: more than {limit}: keep fewer files")
        lines = text.splitlines()
        return {name: base64.b64decode(data) for name, data in zip(lines[::2], lines[1::2], strict=False)}


def _batches(files: Sequence[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """The files, as many at a time as a command may name; at least one batch, for the folder's sake."""
    batch: list[tuple[str, str]] = []
    for file in files:
        if batch and sum(len(text) for _, text in (*batch, file)) > BATCH_CHARACTERS:
            yield batch
            batch = []
        batch.append(file)
    yield batch


@contextmanager
def opened(host: Host, program: Program, values: Mapping[str, str]) -> Iterator[ProgramEnd]:
    """An end with its folder and files for the time of a block. Raises MeasureError."""
    folder = host.run(_MAKE, _QUICK_S).checked().stdout.strip()
    with _removed(host, folder):
        end = ProgramEnd(host, folder, program, values)
        end.write_files(folder)
        if program.user:
            host.run(["chown", "-R", program.user, folder], _QUICK_S).checked()
        yield end


@contextmanager
def _removed(host: Host, folder: str) -> Iterator[None]:
    """Remove a folder after the block. Raises MeasureError when the host is gone; an error of the block counts more."""
    remove = ["rm", "-rf", folder]
    try:
        yield
    except BaseException:
        with suppress(LonghaulError):
            host.run(remove, _QUICK_S)
        raise
    host.run(remove, _QUICK_S)


@contextmanager
def serving(end: ProgramEnd) -> Iterator[None]:
    """Run the server, if there is one, for the time of a block, which begins once it is ready. Raises MeasureError."""
    program = end.program
    if not program.server:
        yield
        return
    argv = ["sh", "-c", _INTO, "longhaul", end.folder, "server", *end.shell(program.server)]
    with end.host.start(argv) as server:
        assert program.ready is not None
        _wait(end, program.ready, server)
        yield


def _wait(end: ProgramEnd, ready: Ready, server: Running) -> None:
    if ready.kind == "after":
        time.sleep(units.parse_duration_ns(ready.argument) / 1e9)
        if not server.running():
            raise MeasureError(_ended(end, ready, server))
        return
    deadline = Deadline(READY_S)
    while not _is_ready(end, ready):
        if not server.running():
            raise MeasureError(_ended(end, ready, server))
        if deadline.passed():
            words = end.last_words("server")
            raise MeasureError(f"the server was not ready ({ready}) within {deadline}; its last line: {words}")
        time.sleep(POLL_S)


def _ended(end: ProgramEnd, ready: Ready, server: Running) -> str:
    code = server.wait(_QUICK_S).exit_code
    return (
        f"the server ended with {code} before it was ready ({ready}): {end.last_words('server')}; "
        "it must stay in the foreground"
    )


def _is_ready(end: ProgramEnd, ready: Ready) -> bool:
    if ready.kind == "tcp":
        return end.host.is_listening(int(ready.argument))
    if ready.kind == "file":
        return not end.host.run(["test", "-e", end.place(ready.argument)], _QUICK_S).exit_code
    outputs = [end.place("server.out"), end.place("server.err")]
    return not end.host.run(["grep", "-qE", "-e", ready.argument, *outputs], _QUICK_S).exit_code


@contextmanager
def run_folder(end: ProgramEnd, number: int) -> Iterator[str]:
    """A folder of its own for one run of the client: the files, and what was prepared."""
    folder = end.place(f"run-{number}")
    if end.program.prepare_client:
        end.host.run(["sh", "-c", _COPY, "longhaul", end.folder, folder], end.program.timeout_ns / 1e9).checked()
    else:
        end.write_files(folder)
    if end.program.user:
        end.host.run(["chown", "-R", end.program.user, folder], _QUICK_S).checked()
    with _removed(end.host, folder):
        yield folder


def timed(end: ProgramEnd, folder: str, number: int) -> TimedRun:
    """Run the client once, in that folder. Raises MeasureError when it takes too long."""
    command = end.shell(end.program.client, run=str(number))
    argv = ["sh", "-c", _TIMED, "longhaul", folder, *command]
    limit_s = end.program.timeout_ns / 1e9
    with end.host.start(argv) as client:
        try:
            done = client.wait(limit_s)
        except LateError:
            raise MeasureError(f"the client did not end within {limit_s:g} s (timeout)") from None
    return _read(done)


def _read(done: Completed) -> TimedRun:
    try:
        began, ended, code = map(int, done.stdout.split())
    except ValueError:
        words = (done.stderr.strip() or "it printed nothing").splitlines()[-1]
        raise MeasureError(f"the client could not be started: {words}") from None
    return TimedRun(began, ended, code)
