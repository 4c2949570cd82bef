"""What the use cases answer to a change."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from emulator.plan.ops import Step
from emulator.plan.schedule_preview import ComingChange


class Performed(Struct, frozen=True):
    """A change that was made; with `performed` False it was only planned. `etag` is empty where the intent is
    spoilt."""

    summary: str
    steps: Sequence[Step]
    performed: bool
    etag: str
    warnings: Sequence[str] = ()


class ScheduleChange(Struct, frozen=True):
    """A change of the schedule: what was performed, what is different in words, and what the schedule changes first."""

    performed: Performed
    differences: Sequence[str]
    coming: Sequence[ComingChange]
