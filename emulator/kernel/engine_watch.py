"""Detects wire engines that end: each engine has a process descriptor that becomes readable then."""

from __future__ import annotations

import os

from emulator.kernel import engine_client


class Engines:
    """The engines of this namespace, held by descriptors."""

    def __init__(self) -> None:
        self._held: set[int] = set()
        self._known: set[tuple[str, int, int]] = set()

    def look(self) -> bool:
        """Take hold of those that are new; whether one of them is found dead."""
        found, died = set(), False
        for bridge, path in engine_client.sockets().items():
            try:
                there = path.stat()
            except FileNotFoundError:
                continue
            found.add((bridge, there.st_ino, there.st_ctime_ns))
            if (bridge, there.st_ino, there.st_ctime_ns) in self._known:
                continue
            try:
                self._held.add(engine_client.watch(bridge))
            except OSError:
                died = True
        self._known = found
        return died

    @property
    def descriptors(self) -> frozenset[int]:
        """What to wait for."""
        return frozenset(self._held)

    def ended(self, readable: set[int]) -> bool:
        """Whether an engine is among these descriptors; it is let go of."""
        gone = self._held & readable
        self._held -= gone
        for fd in gone:
            os.close(fd)
        return bool(gone)

    def close(self) -> None:
        """Let go of all."""
        self.ended(set(self._held))
