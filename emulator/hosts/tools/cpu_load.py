"""The load of each core between two readings of /proc/stat, whatever process caused it."""

from __future__ import annotations

from emulator.errors import MeasureError

FILE = "/proc/stat"
_IDLE = (3, 4)
"""The columns of a core's waiting time: idle and iowait (proc(5))."""


def parse(text: str) -> dict[str, tuple[int, int]]:
    """(waiting, total) ticks of every core by name. Raises MeasureError."""
    try:
        cores = {
            words[0]: [int(word) for word in words[1:9]]  # user time contains guest time
            for line in text.splitlines()
            if (words := line.split()) and words[0].startswith("cpu") and words[0] != "cpu"
        }
        return {name: (sum(ticks[column] for column in _IDLE), sum(ticks)) for name, ticks in cores.items()}
    except (ValueError, IndexError):
        raise MeasureError(f"{FILE} cannot be read: {text[:60]!r}") from None


def busiest_percent(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> float:
    """The load of the busiest core between two readings; 0 when no tick passed."""
    shares = [0.0]
    for name, (waiting, ticks) in after.items():
        waited, went = before.get(name, (waiting, ticks))
        if ticks > went:
            shares.append(100 * (1 - (waiting - waited) / (ticks - went)))
    return max(shares)
