"""The requests of a cell: how many, how large, from how many users, and when. Values; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from msgspec import Struct

from emulator import units
from emulator.model.sweep_axes import DEFAULT_REQUESTS

_FIELDS = {
    "connections": "connections",
    "in_flight": "in_flight",
    "request": "request_bytes",
    "answer": "answer_bytes",
    "think": "think_ns",
    "offered": "offered_per_s",
}
"""Which field of a load each axis sets (`sweep_axes.REQUEST_AXES`)."""


class RequestLoad(Struct, frozen=True):
    """Requests of `request_bytes`, each with an answer of `answer_bytes`, over `connections` of `in_flight` places.

    Closed loop: the user at each place sends, waits for the answer, thinks, and sends again. Open loop
    (`offered_per_s`): requests are due at fixed times, whether or not earlier ones were answered. A measurement ends
    after the cell's duration or after `count` requests, whichever comes first.
    """

    connections: int = 1
    in_flight: int = 1
    request_bytes: int = 256
    answer_bytes: int = 1024
    think_ns: int = 0
    offered_per_s: float | None = None
    count: int = DEFAULT_REQUESTS

    def __post_init__(self) -> None:
        if self.think_ns and self.offered_per_s:
            raise ValueError("with an offered rate nobody thinks: remove think, or offered")

    @property
    def places(self) -> int:
        """How many requests are in flight at most."""
        return self.connections * self.in_flight

    @property
    def is_open(self) -> bool:
        """Whether requests are due at fixed times."""
        return self.offered_per_s is not None

    @property
    def title(self) -> str:
        """What distinguishes it from other loads, in words."""
        return ", ".join(
            [
                "1 connection" if self.connections == 1 else f"{self.connections} connections",
                *([f"{self.in_flight} in flight"] if self.in_flight != 1 else []),
                f"{units.format_size(self.request_bytes)} for {units.format_size(self.answer_bytes)}",
                *([f"think {units.format_duration(self.think_ns)}"] if self.think_ns else []),
                *([f"{self.offered_per_s:g}/s offered"] if self.offered_per_s else []),
            ]
        )

    @property
    def part(self) -> str:
        """The same as a part of a cell's name."""
        sizes = f"{units.format_size(self.request_bytes)}-{units.format_size(self.answer_bytes)}"
        parts = [
            f"c{self.connections}",
            f"k{self.in_flight}",
            sizes,
            *([f"think{units.format_duration(self.think_ns)}"] if self.think_ns else []),
            *([f"{self.offered_per_s:g}ps"] if self.offered_per_s else []),
        ]
        return "-".join(units.compact(part) for part in parts)


def loads(values: Mapping[str, Any]) -> Iterator[RequestLoad]:
    """Every combination of the axes' values, by their keys. Raises ValueError when one is impossible."""
    axes = [key for key in _FIELDS if values.get(key)]
    count = {"count": values["count"]} if values.get("count") else {}
    for chosen in product(*(values[key] for key in axes)):
        yield RequestLoad(**{_FIELDS[key]: value for key, value in zip(axes, chosen, strict=True)}, **count)
