"""The daemon's parts put together around an appliance."""

from __future__ import annotations

from pathlib import Path

from emulator.appliance import Appliance
from emulator.echo import Echoes

from .app import create_app
from .certificates import Certificates
from .daemon import Daemon
from .guard import Guard
from .live import Live
from .runforms import run_answer
from .runs import Run, Runs, local_runners
from .server import Server
from .usecases import UseCases


def daemon(appliance: Appliance, state: Path, *, lab: bool = True, demo: bool = False) -> Daemon:
    """All parts, none of them at work yet."""
    usecases = UseCases(appliance)
    live = Live(usecases, Echoes())

    def say(run: Run) -> None:
        live.channel.send("run", run_answer(run).model_dump(mode="json"))

    runs = Runs(state / "runs", usecases, local_runners, say, set_aside=demo)
    return Daemon(usecases, live, runs, Certificates(state / "certificates"), lab, demo)


class LiveServer(Server):
    """A server whose daemon is at work while it runs."""

    parts: Daemon

    def run(self) -> None:
        """Serve until `end` is called; the event stream ends first."""
        self.parts.live.start()
        try:
            super().run()
        finally:
            self.parts.stop()

    def end(self) -> None:
        """As Server; watchers of the event stream go at once."""
        self.parts.live.channel.close()
        super().end()


def server(
    appliance: Appliance, state: Path, guard: Guard, listen: str | None, unix: Path | None = None, *, lab: bool = True,
    demo: bool = False,
) -> LiveServer:  # fmt: skip
    """The server over an appliance, listening already. Raises MissingError when it cannot."""
    parts = daemon(appliance, state, lab=lab, demo=demo)
    made = LiveServer(create_app(parts, guard), listen, unix)
    made.parts = parts
    return made
