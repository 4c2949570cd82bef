"""A clock that tests turn themselves."""

from __future__ import annotations

from dataclasses import dataclass
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

    def boot_id(self) -> str:
        return f"life-{self.life}"

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def reboot(self) -> None:
        self.life, self.now_ns = self.life + 1, 1
