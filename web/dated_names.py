"""Names of runs and certificates: the time in UTC to the millisecond, so that they sort by age."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from pathlib import Path

PATTERN = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9]{3}")


def free(folder: Path, now: datetime, suffix: str = "") -> str:
    """The first name from now on that nothing in the folder has; call it under a lock, until the name is taken."""
    while os.path.lexists(folder / f"{(name := now.strftime('%Y%m%d-%H%M%S-%f')[:-3])}{suffix}"):
        now += timedelta(milliseconds=1)
    return name
