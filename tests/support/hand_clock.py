"""A clock that tests turn themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


@dataclass
class HandClock:
    """Stands still until `pass_s` moves it; `reboot` begins another life of the machine."""

    now_ns: int = 1_000_000_000
    life: int = 1

    def today(self) -> datetime:
        return datetime(2001, 9, 9, tzinfo=UTC) + timedelta(seconds=self.now_ns // 10**9)

    def boottime_ns(self) -> int:
        return self.now_ns

    def unix_ns(self) -> int:
        return 10**18 + self.now_ns

    def boot_id(self) -> str:
        return f"life-{self.life}"

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def reboot(self) -> None:
        self.life, self.now_ns = self.life + 1, 1


@dataclass
class HandAlarm:
    """The time of day of a HandClock, which moves on when somebody waits; `slow_ns` passes with every reading."""

    clock: HandClock = field(default_factory=HandClock)
    slow_ns: int = 0
    reading_ns: int = 0

    def now_ns(self) -> int:
        self.clock.now_ns += self.slow_ns
        return self.clock.unix_ns()

    def sleep_until(self, at_ns: int) -> None:
        self.clock.now_ns += max(0, at_ns - self.clock.unix_ns())
