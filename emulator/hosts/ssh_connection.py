"""One SSH connection of the OpenSSH client with the user's own configuration and keys; all commands share it.

The first session is the master of the others and lives as long as this process: its remote side reads from us and ends
when we end, in whatever way. Remote programs end with their session, so a broken connection leaves none behind.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from emulator.errors import MeasureError, MissingError
from emulator.hosts.tools.process import Completed, Running

CONNECT_TIMEOUT_S = 10
ALIVE_S, ALIVE_COUNT = 5, 3
"""A connection counts as lost after 15 s of silence."""

LEASE_S = 30
"""A host restores its settings after this many seconds without a heartbeat."""

LOST = 255
"""The exit code of ssh itself."""

_READY = "longhaul"
_LIFELINE = f'echo {_READY} "$(id -u)" && exec cat >/dev/null'
_ATTACHED = """\
exec 3<&0
setsid "$@" 3<&- &
child=$!
{ cat <&3; kill -s KILL -- "-$child" || kill -s KILL "$child"; } >/dev/null 2>&1 &
reader=$!
exec 3<&-
wait "$child"
code=$?
kill "$reader" 2>/dev/null
[ "$code" = 255 ] && code=254
exit "$code"
"""
"""Runs a program, and ends it with all that it started when stdin ends, as `Running.kill` does here. It has no group of
its own until setsid runs. sh starts background programs without stdin. ssh itself exits with 255."""
ENDING_S = 5.0
"""A host may take so long to end a program; without a connection nobody can wait for more."""

_ADVICE = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has changed: find out why, then {remove}",
    ),
    ("Host key verification failed", "its host key is not known here: connect once by hand (ssh {to}) and verify it"),
    ("Permission denied", "no key of yours is accepted there: ssh-copy-id {to}, or name the key in ~/.ssh/config"),
    ("Connection refused", "no SSH server listens there: start sshd, or set the port in ~/.ssh/config"),
    ("Could not resolve hostname", "the name is unknown: check the topology file, or add a Host to ~/.ssh/config"),
    ("timed out", "it does not answer: is it running, and is there a route to it apart from the lane?"),
    ("No route to host", "no route leads to it: is it running, and is there a route to it apart from the lane?"),
    ("Network is unreachable", "no route leads to it from here: check this machine's addresses and routes"),
)

_REMOVE_KEY = re.compile(r"ssh-keygen -f .+ -R \S+")


class Connection:
    """A connection to `destination`, with its control socket at `socket` in a private folder. Open it before use."""

    def __init__(self, destination: str, socket: Path) -> None:
        self.destination, self._socket = destination, socket
        self._master: Running | None = None
        self._is_root = False

    def open(self) -> None:
        """Connect. Raises MissingError that says what to do."""
        self._master = Running([*self._ssh("yes"), _LIFELINE], listens=True)
        said = self._master.read_line(CONNECT_TIMEOUT_S + 3 * ALIVE_S)
        ready, _, user = said.partition(" ")
        if ready != _READY:
            self._master.close_stdin()
            try:
                words = self._master.wait(CONNECT_TIMEOUT_S).stderr
            except MeasureError:
                words = "timed out"
            raise MissingError(f"{self.destination}: {_chatty(said) if said else advice(words, self.destination)}")
        self._is_root = user == "0"

    def close(self) -> None:
        """Disconnect."""
        if self._master:
            self._master.terminate()

    def start(self, argv: Sequence[str], *, as_root: bool = False) -> Session:
        """Start a program on the host; it ends with its session."""
        return Session(
            self.command(["sh", "-c", _ATTACHED, "longhaul"], argv, as_root), (f"{self.destination}:", *argv)
        )

    def start_script(self, text: str, name: str, arguments: Sequence[str]) -> Session:
        """Start a shell script on the host as root. Its first argument is its own text; it detects the end of its
        stdin."""
        argv = ["sh", "-c", 'eval "$1"', name, text, *arguments]
        return Session(self.command([], argv, as_root=True), (f"{self.destination}:", name))

    def command(self, wrapper: Sequence[str], argv: Sequence[str], as_root: bool) -> list[str]:
        """The ssh command that starts a program on the host with our wrapper."""
        sudo = ["sudo", "-n"] if as_root and not self._is_root else []
        # The wrapper, too, runs as root: no one else may end a program of root's.
        return [*self._ssh("no"), shlex.join([*sudo, *wrapper, "env", "LC_ALL=C", *argv])]

    def _ssh(self, master: str) -> list[str]:
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_TIMEOUT_S,
            "ServerAliveInterval": ALIVE_S,
            "ServerAliveCountMax": ALIVE_COUNT,
            "ControlMaster": master,
            "ControlPath": self._socket,
            "ControlPersist": "no",
            "RemoteCommand": "none",
            "RequestTTY": "no",
            "LogLevel": "ERROR",
        }
        return ["ssh", *(word for key, value in options.items() for word in ("-o", f"{key}={value}")), "--",
                self.destination]  # fmt: skip


class Session(Running):
    """A program on the host; messages call it `called`."""

    def __init__(self, command: Sequence[str], called: tuple[str, ...]) -> None:
        super().__init__(command, listens=True)
        self.argv = called

    def terminate(self) -> None:
        """End it on the host, wait until it has ended there, and discard its output."""
        self.close_stdin()
        self.ends_within(ENDING_S)
        super().terminate()

    def wait(self, timeout_s: float) -> Completed:
        """Its output, after it ended. Raises LateError, MeasureError when it is cut off, MissingError when it cannot
        run."""
        done = super().wait(timeout_s)
        where, said = self.argv[0], done.stderr.strip()
        if done.exit_code == LOST:
            why = said.splitlines()[-1] if said else "ssh printed nothing"
            raise MeasureError(f"{where} connection lost ({why}); the host restores its settings within {LEASE_S} s")
        if done.exit_code == 127:
            raise MissingError(f"{where} {' '.join(self.argv[1:])} is not installed there: apt-get install it")
        if done.exit_code and said.startswith("sudo: "):
            raise MissingError(f"{where} {said}; log in as root, or allow sudo there without a password")
        return done


def advice(said: str, destination: str) -> str:
    """ssh's last message and what to do about it."""
    last = (said.strip() or "ssh printed nothing").splitlines()[-1]
    # Debian's ssh prints the command with the file and the name that hold the key: an alias is neither.
    told = _REMOVE_KEY.search(said)
    remove = told[0] if told else f"ssh-keygen -R {destination.rpartition('@')[2]}"
    for sign, text in _ADVICE:
        if sign.lower() in said.lower():
            return f"{text.format(to=destination, remove=remove)} ({last})"
    return f"{last}; try by hand: ssh -v {destination}"


def _chatty(said: str) -> str:
    silent = "make its start-up files print nothing when there is no terminal"
    return f"the login shell there prints {said[:60]!r} before anything else: {silent}"
