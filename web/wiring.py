"""Builds the daemon's parts around an appliance."""

from __future__ import annotations

import os
import socket
import sys
from functools import partial
from pathlib import Path

from emulator.control.appliance import Appliance
from emulator.control.rtt_monitor import Echoes
from emulator.control.watchdog_thread import Watchdog
from emulator.system import event_log
from web.api.matrix import verification_answer
from web.api.recordings import recording_answer
from web.api.run_schemas import run_answer
from web.app import create_app
from web.auth.guard import Guard
from web.certificates import Certificates
from web.context import ServerContext
from web.live import Channel, Live
from web.recordings import Recording, Recordings
from web.runs import Run, Runs, local_runners
from web.server import Server
from web.service import UseCases
from web.traces import Traces
from web.verifications import Verification, Verifications


def daemon(appliance: Appliance, state: Path, *, lab: bool = True, demo: bool = False) -> ServerContext:
    """All parts; none of them has started."""
    usecases = UseCases(appliance)
    live = Live(usecases, Echoes())

    def say(run: Run) -> None:
        live.channel.send("run", run_answer(run).model_dump(mode="json"))

    runners = partial(local_runners, instead=demo)
    runs = Runs(state / "runs", usecases, runners, say, set_aside=demo)
    certificates = Certificates(state / "certificates")

    def tell(verification: Verification) -> None:
        live.channel.send("verification", verification_answer(verification).model_dump(mode="json"))

    def told(recording: Recording) -> None:
        live.channel.send("recording", recording_answer(recording).model_dump(mode="json"))

    verifications = Verifications(usecases, certificates, tell)
    kept = Traces(state / "traces"), Recordings(state / "recordings", usecases, told)
    return ServerContext(usecases, live, runs, certificates, verifications, *kept, lab, demo)


def reporting(log: event_log.Log, channel: Channel) -> event_log.Log:
    """Write the watchdog's events to the journal and to the event stream (`watchdog`)."""

    def report(priority: int, event: str, **fields: object) -> None:
        log(priority, event, **fields)
        said = {name: value if isinstance(value, int | float) else str(value) for name, value in fields.items()}
        channel.send("watchdog", {"level": event_log.NAMES[priority], "event": event, **said})

    return report


class LiveServer(Server):
    """A server whose daemon and watchdog run as long as it does."""

    parts: ServerContext
    watchdog: Watchdog

    def run(self) -> None:
        """Serve until `end` is called; the event stream ends first."""
        self.watchdog.start()
        self.parts.live.start()
        try:
            super().run()
        finally:
            self.parts.stop()
            self.watchdog.stop()

    def end(self) -> None:
        """End the server; watchers of the event stream end at once."""
        self.parts.live.channel.close()
        super().end()


def server(
    appliance: Appliance, state: Path, guard: Guard, listen: str | socket.socket | None, unix: Path | None = None, *,
    lab: bool = True, demo: bool = False, as_json: bool = False,
) -> LiveServer:  # fmt: skip
    """The server over an appliance, already listening; it logs to stderr. Raises MissingError when it cannot."""
    parts = daemon(appliance, state, lab=lab, demo=demo)
    made = LiveServer(create_app(parts, guard), listen, unix)
    log = event_log.logger(sys.stderr, os.environ, as_json)
    made.parts, made.watchdog = parts, Watchdog(parts.usecases, reporting(log, parts.live.channel))
    parts.watched_at = lambda: made.watchdog.daemon.looked_at
    return made
