"""Log lines as key=value or JSON. Lines for the systemd journal start with their priority."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TextIO

ERROR, WARNING, NOTICE, INFO = 3, 4, 5, 6
"""Priorities of syslog (RFC 5424)."""

Log = Callable[..., None]
NAMES = {ERROR: "error", WARNING: "warning", NOTICE: "notice", INFO: "info"}


def logger(stream: TextIO, environment: Mapping[str, str], as_json: bool = False) -> Log:
    """Return a function `log(priority, event, **fields)` that writes one line to `stream` per call."""
    prefixed = is_read(environment)

    def log(priority: int, event: str, **fields: object) -> None:
        values = {"level": NAMES[priority], "event": event, **fields}
        line = json.dumps(values) if as_json else " ".join(f"{key}={quoted(value)}" for key, value in values.items())
        stream.write(f"<{priority}>{line}\n" if prefixed and not as_json else f"{line}\n")
        stream.flush()

    return log


def is_read(environment: Mapping[str, str]) -> bool:
    """Whether the systemd journal reads our output (systemd.exec(5))."""
    return "JOURNAL_STREAM" in environment


def quoted(value: object) -> str:
    """The value as one word: quoted and with newlines escaped when it holds more than one word."""
    text = str(value)
    return text if text and not set(text) & set(" \"=\n\t'") else json.dumps(text, ensure_ascii=False)
