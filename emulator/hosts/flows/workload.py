"""Groups of flows against each other as the workload of a cell."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from emulator.hosts.tools.workload import Load
from emulator.model.flow_group import EXAMPLE, Contest
from emulator.units import format_duration


class FlowsWorkload(Struct, frozen=True):
    """The flows of all groups share the lane; their senders are at the end from which the direction leads away."""

    kind: ClassVar[str] = "flows"
    contest: Contest = field(default_factory=lambda: Contest.parse(EXAMPLE))

    def check(self, load: Load) -> None:
        """Raise ValueError when the load asks for what groups have in a form of their own, or ends before they do."""
        if load.both:
            raise ValueError("groups of flows have one direction: choose outbound or inbound")
        if load.streams != 1:
            raise ValueError("groups have flows instead of streams: remove streams")
        if load.congestion_control:
            raise ValueError("each group names its own congestion control: remove cc")
        for group in self.contest.groups:
            if group.start_ns >= load.duration_s * 10**9 or (group.stop_ns or 0) > load.duration_s * 10**9:
                lasts = format_duration(load.duration_s * 10**9)
                raise ValueError(f"{group} starts or stops after the end of the measurement, which lasts {lasts}")

    def title(self, load: Load) -> str:  # noqa: ARG002
        """What a table calls it."""
        return self.contest.title

    def part(self, load: Load) -> str:  # noqa: ARG002
        """Its part of a cell's name."""
        return self.contest.part
