"""A program that runs over a lane: the commands of its two ends, as the user gives them. Values; pure.

Each command is a line for /bin/sh, which runs in the working folder of its end. `{server}` and the other names of
`PLACEHOLDERS` are filled in; `{{` and `}}` are braces.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from emulator import units
from emulator.errors import no_such
from emulator.model import debian_packages, shell_commands

PLACEHOLDERS = {
    "server": "the server's address",
    "client": "the client's address",
    "rtt_ms": "the lane's RTT in ms",
    "rate": "the bottleneck's rate in bit/s",
    "seed": "the seed of the measurement",
    "run": "the number of the client's run, from 0",
    "bytes": "the bytes that the program carries",
}
"""What may stand in braces in a command or in a file."""
COMMANDS = ("prepare", "prepare_client", "server", "client")

DEFAULT_TIMEOUT_NS = 600 * 10**9
LONGEST_NS = 86_400 * 10**9
DEFAULT_RUNS, MOST_RUNS = 5, 1000
MOST_FILES, LARGEST_FILES_BYTES = 64, 1 << 20
"""Of `files` together: they are part of every cell."""
MOST_BYTES = 1 << 50

_PLACEHOLDER = re.compile(r"\{\{|\}\}|(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,31}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")
SHELL_WORDS = frozenset({
    ".", "alias", "break", "case", "cd", "command", "continue", "eval", "exec", "exit", "export", "for", "if", "local",
    "read", "readonly", "return", "set", "shift", "time", "trap", "umask", "ulimit", "unset", "until", "wait", "while",
})  # fmt: skip
"""What the shell does itself: POSIX.1-2024, 2.4 and 2.15."""
_HOW = "tcp:PORT, file:PATH, output:REGEX or after:TIME"


class Ready(Struct, frozen=True):
    """When the server is ready: `tcp` (a port listens), `file` (a path exists in its folder), `output` (a line of its
    output matches an extended regular expression), `after` (this time has passed)."""

    kind: str
    argument: str

    def __post_init__(self) -> None:
        if self.kind not in ("tcp", "file", "output", "after"):
            raise ValueError(f"{str(self)!r} does not say when the server is ready: use {_HOW}")
        if not self.argument:
            raise ValueError(f"{str(self)!r} has nothing after the colon: use {_HOW}")
        _CHECKS[self.kind](self.argument)

    @classmethod
    def parse(cls, text: str) -> Ready:
        """Read `tcp:873`, `file:PATH`, `output:REGEX` or `after:2s`. Raises ValueError."""
        kind, colon, argument = text.partition(":")
        if not colon:
            raise ValueError(f"{text!r} does not say when the server is ready: use {_HOW}")
        return cls(kind.strip(), argument.strip())

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}"


def _check_port(text: str) -> None:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise ValueError(f"{text!r} is no port: use tcp: and a number from 1 to 65535")


def _check_pattern(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None


def _check_wait(text: str) -> None:
    if units.parse_duration_ns(text) > LONGEST_NS:
        raise ValueError(f"{text!r} is longer than a day")


def check_path(text: str) -> str:
    """The path, of a file below a working folder. Raises ValueError."""
    if not text.strip("./") or "\0" in text or text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"{text!r} is not below the working folder: use a relative path such as data/file")
    return text


_CHECKS = {"tcp": _check_port, "file": check_path, "output": _check_pattern, "after": _check_wait}


class ProgramError(ValueError):
    """Settings that no program can have; `mistakes` are all of them, each as (key, text)."""

    def __init__(self, mistakes: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{key}: {text}" for key, text in mistakes))
        self.mistakes = tuple(mistakes)


class Program(Struct, frozen=True):
    """The commands, and what surrounds them.

    `prepare` and `prepare_client` run once, before the server starts, in the folder of the server and of the client.
    `files` are texts that both folders get, by path. `repeat` counts the runs of the client against one server; each
    has a folder of its own with `files` and what `prepare_client` made, so that it does the same again. `keep` names
    files of both ends (patterns of the shell) that the run folder gets. `bytes` is the payload that the program must
    carry to the end that receives more; None: what TCP carried. `packages` are Debian packages that a lab gets on top
    of its image.
    """

    name: str
    client: str
    server: str = ""
    ready: Ready | None = None
    prepare: str = ""
    prepare_client: str = ""
    repeat: int = DEFAULT_RUNS
    bytes: int | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    timeout_ns: int = DEFAULT_TIMEOUT_NS
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if wrong := list(self._mistakes()):
            raise ProgramError(wrong)

    def _mistakes(self) -> Iterator[tuple[str, str]]:
        """Everything that is wrong, each as (key, text); the key of a file is files.NAME."""
        if not _NAME.fullmatch(self.name):
            yield "name", f"{self.name!r} is no name: use up to 32 letters, digits, dots and dashes"
        if not self.client.strip():
            yield "client", "there is no client command: it is what is measured"
        if self.server and self.ready is None:
            yield "ready", f"nothing says when the server is ready: use {_HOW}"
        if self.ready and not self.server:
            yield "ready", "there is no server to wait for: add server, or remove ready"
        for key, text in (*self.commands.items(), *((f"files.{name}", text) for name, text in self.files.items())):
            for name in sorted(unknown_placeholders(text)):
                yield (
                    key,
                    f"{no_such('placeholder', name, tuple(PLACEHOLDERS))}; braces of the command itself: {{{{ and }}}}",
                )
            if self.bytes is None and "{bytes}" in text:
                yield key, "{bytes} stands for the key bytes, which is not given"
        yield from self._limits()

    def _limits(self) -> Iterator[tuple[str, str]]:
        if not 1 <= self.repeat <= MOST_RUNS:
            yield "repeat", f"{self.repeat} is not within 1..{MOST_RUNS}"
        if self.bytes is not None and not 1 <= self.bytes <= MOST_BYTES:
            yield "bytes", f"{self.bytes} bytes are not within 1..{MOST_BYTES}"
        if not 0 < self.timeout_ns <= LONGEST_NS:
            yield "timeout", f"{units.format_duration(self.timeout_ns)} is not above 0 and at most a day"
        if len(self.files) > MOST_FILES or sum(map(len, self.files.values())) > LARGEST_FILES_BYTES:
            yield "files", f"more than {MOST_FILES} files or {units.format_size(LARGEST_FILES_BYTES)}: use prepare"
        for key, paths in (("files", tuple(self.files)), ("keep", self.keep)):
            for path in paths:
                try:
                    check_path(path)
                except ValueError as error:
                    yield key, str(error)
        try:
            debian_packages.checked(self.packages)
        except ValueError as error:
            yield "packages", str(error)
        if self.user and not _USER.fullmatch(self.user):
            yield "user", f"{self.user!r} is no user name"
        for name, value in self.environment.items():
            if not _VARIABLE.fullmatch(name) or "\0" in value:
                yield "environment", f"{name!r} is no variable"

    @property
    def commands(self) -> dict[str, str]:
        """The commands that are given, by key, in the order in which they run."""
        return {key: text for key in COMMANDS if (text := getattr(self, key))}

    @property
    def programs(self) -> tuple[str, ...]:
        """The first word of every command, and of the commands in a plain list of them: what must be installed."""
        found = dict.fromkeys(
            name for text in self.commands.values() for name in (first_word(text), *shell_commands.programs(text))
        )
        return tuple(name for name in found if name and name not in SHELL_WORDS)


def unknown_placeholders(text: str) -> set[str]:
    """The names in braces that are none of `PLACEHOLDERS`."""
    return {name for name in _PLACEHOLDER.findall(text) if name and name not in PLACEHOLDERS}


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders replaced."""

    def replaced(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else values[found[1]]

    return _PLACEHOLDER.sub(replaced, text)


def first_word(command: str) -> str:
    """The program that a command of the shell starts first; "" when it begins with something else, such as a loop."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return ""
    words = [word for word in words if word != "exec" and not _ASSIGNMENT.match(word)]
    return words[0] if words and _PLAIN.fullmatch(words[0]) and words[0] not in SHELL_WORDS else ""


def of_settings(given: Mapping[str, Any]) -> Program:
    """The program of the settings that a user gave, by field. Raises ProgramError."""
    client = str(given.get("client", ""))
    return Program(**{"name": name_of(client), "client": client, **given})


def name_of(client: str) -> str:
    """The name of a program that the user gave no name: the client's own."""
    word = first_word(client).rpartition("/")[2]
    return word if _NAME.fullmatch(word) else "program"
