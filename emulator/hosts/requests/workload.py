"""Requests as the workload of a cell."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from emulator.hosts.tools.workload import Load
from emulator.model.request_load import RequestLoad


class RequestsWorkload(Struct, frozen=True):
    """Users at one end and their server at the other; the users are at the end from which the direction leads away."""

    kind: ClassVar[str] = "requests"
    requests: RequestLoad = field(default_factory=RequestLoad)

    def check(self, load: Load) -> None:
        """Raise ValueError when the load asks for what requests have in a form of their own."""
        if load.both:
            raise ValueError("requests have one client: choose outbound (the client at the hub) or inbound")
        if load.streams != 1:
            raise ValueError("requests have connections instead of streams: remove streams")

    def title(self, load: Load) -> str:  # noqa: ARG002
        """What a table calls it."""
        return self.requests.title

    def part(self, load: Load) -> str:  # noqa: ARG002
        """Its part of a cell's name."""
        return self.requests.part
