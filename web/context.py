"""Everything that a request may need, in one value kept by the Flask application."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from flask import current_app

from emulator.control.status import Status
from emulator.experiment import sweep_runner
from web.certificates import Certificates
from web.live import Live
from web.recordings import Recordings
from web.runs import Runs
from web.service import UseCases
from web.traces import Traces
from web.verifications import Verifications


@dataclass
class ServerContext:
    """The parts of the server. `lab`: runs may be measured in labs; `demo`: the whole machine is a lab."""

    usecases: UseCases
    live: Live
    runs: Runs
    certificates: Certificates
    verifications: Verifications
    traces: Traces
    recordings: Recordings
    lab: bool = True
    demo: bool = False
    clock: Callable[[], float] = time.monotonic
    watched_at: Callable[[], float | None] = lambda: None
    """When the watchdog last checked the lanes, by `clock`."""
    confines: Callable[[], bool] = sweep_runner.lab_is_confined
    """Whether this machine's kernel keeps the programs of a lab from its files."""
    started: float = field(init=False)
    last_status: tuple[Status, str] | None = None
    """The latest status as JSON; clients that ask at about the same time share it."""

    def __post_init__(self) -> None:
        self.started = self.clock()

    def stop(self) -> None:
        """Stop what runs beside the requests."""
        self.live.stop()
        self.runs.stop()
        self.verifications.stop()
        self.recordings.end()


def here() -> ServerContext:
    """The daemon that received this request."""
    return cast(ServerContext, current_app.extensions["longhaul"])
