"""Detects wire engines that end: each engine has a process descriptor that becomes readable then."""

from __future__ import annotations

import os

from emulator.kernel import engine_client


class Engines:
    """Process descriptors of this namespace's engines."""

    def __init__(self) -> None:
        self._held: set[int] = set()
        self._known: set[tuple[str, int, int]] = set()

    def look(self) -> bool:
        """Open descriptors of new engines; return whether one of them is dead."""
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
        """The descriptors to wait for."""
        return frozenset(self._held)

    def ended(self, readable: set[int]) -> bool:
        """Whether an engine is among these descriptors; closes its descriptor."""
        gone = self._held & readable
        self._held -= gone
        for fd in gone:
            os.close(fd)
        return bool(gone)

    def close(self) -> None:
        """Close all descriptors."""
        self.ended(set(self._held))
