"""A program of the user's as the workload of a cell."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from emulator.hosts.tools.workload import Load
from emulator.model.program import Program


class ProgramWorkload(Struct, frozen=True):
    """A server at one end and a client at the other; the client is at the end from which the direction leads away."""

    kind: ClassVar[str] = "program"
    program: Program

    def check(self, load: Load) -> None:
        """Raise ValueError when the load asks for what a program decides itself."""
        if load.both:
            raise ValueError("a program has one client: choose outbound (the client at the hub) or inbound")
        if load.streams != 1:
            raise ValueError("a program opens its own connections: remove streams")

    def title(self, load: Load) -> str:  # noqa: ARG002
        """What a table calls it."""
        return self.program.name

    def part(self, load: Load) -> str:  # noqa: ARG002
        """Its part of a cell's name."""
        return self.program.name
