"""The restore guard of hosts killed -9 before every system call that changes something, in namespaces of its own.

Whatever dies, and when: the next measurement on the host starts and ends as if nothing had been, and the host has the
settings of before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from support import killed_calls
from support.folders import ROOT

SCRIPT = (ROOT / "emulator/hosts/restore_guard.sh").read_text()
SYSCTL = "net.ipv4.tcp_rmem"
VALUE = Path("/proc/sys/net/ipv4/tcp_rmem")
FOLDER = Path("/run/longhaul-keeper")
BEFORE, DURING = "4096\t131072\t6291456", "4096 65536 1048576"
LEASE_S = "0"
"""The guard takes the first second without a new heartbeat for a lost connection."""


def argv(*arguments: str) -> list[str]:
    return ["sh", "-c", 'eval "$1"', "longhaul-keeper", SCRIPT, *arguments]


def keep(lease_s: str) -> tuple[list[str], int]:
    """A whole measurement: what the script printed, and its exit code."""
    script = argv("keep", lease_s, "-", "-", SYSCTL)
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdin and one.stdout
        said = [one.stdout.readline().strip()]
        if said == ["ready"]:
            VALUE.write_text(DURING)
        one.stdin.close()
        said += one.stdout.read().split("\n")
    return [line for line in said if line], one.returncode


def unlocked() -> None:
    """Wait until no guard holds a lock any more."""
    for lock in FOLDER.glob("*.lock"):
        subprocess.run(["flock", str(lock), "true"], check=True)


def of_keep() -> Counter[str]:
    """Deaths of the script that the connection starts."""

    def work() -> None:
        read, write = os.pipe()
        os.write(write, b"1\nend\n")
        os.dup2(read, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execvp("sh", argv("keep", LEASE_S, "-", "-", SYSCTL))

    return _deaths(work)


def of_guard() -> Counter[str]:
    """Deaths of the guard that restores, which `keep` would have started."""
    before = FOLDER / f"{Path('/proc/self/ns/net').stat().st_ino}.before"

    def work() -> None:
        before.write_text(f"sysctl {SYSCTL} {BEFORE}\n")
        VALUE.write_text(DURING)
        os.execvp("sh", argv("guard", LEASE_S, "-", "-", str(os.getpid())))

    return _deaths(work)


def _deaths(work: Callable[[], object]) -> Counter[str]:
    calls = Counter[str]()
    while True:
        VALUE.write_text(BEFORE)
        call = killed_calls.killed(work, calls.total())
        unlocked()
        said, code = keep("5")
        assert (said, code) == (["ready", "restored"], 0), f"after a death before call {calls.total()}, {call}: {said}"
        assert VALUE.read_text().strip() == BEFORE, f"after a death before call {calls.total()}, {call}"
        left = [path.name for path in FOLDER.iterdir() if path.suffix != ".lock"]
        assert left == [], f"after a death before call {calls.total()}, {call}"
        if call is None:
            return calls
        calls[call] += 1


def on_a_full_disk() -> tuple[list[str], int, bool]:
    """What the script prints, its exit code, and whether the settings are those of before."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "full", str(FOLDER)], check=True)
    (FOLDER / "filler").write_bytes(bytes(4096))
    said, code = keep("5")
    return said, code, VALUE.read_text().strip() == BEFORE


def after_a_slow_guard() -> list[tuple[list[str], int]]:
    """Two measurements, the second at once after the answer of the first, whose guard takes a second to end."""
    slow = FOLDER / "bin" / "mv"
    slow.parent.mkdir()
    slow.write_text('#!/bin/sh\n/bin/mv "$@"\nsleep 1\n')
    slow.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{slow.parent}:{before}"
    try:
        return [keep("5"), keep("5")]
    finally:
        os.environ["PATH"] = before
        shutil.rmtree(slow.parent)


if __name__ == "__main__":
    FOLDER.mkdir()
    found = {"slow": after_a_slow_guard(), "keep": of_keep(), "guard": of_guard(), "full": on_a_full_disk()}
    print(json.dumps(found))  # noqa: T201
