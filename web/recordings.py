"""Recordings of real paths: one at a time in the background, and those that are kept, each in a folder of its own."""

from __future__ import annotations

import copy
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from emulator.config.path_profile_include import PROFILE
from emulator.errors import InputError, LonghaulError, Mistake, RefusedError, no_such
from emulator.model.topology import Topology
from emulator.record import file, recording
from emulator.record.path_profile import PathProfile, RecordingSource
from emulator.record.probes import RecordedProbe
from emulator.record.recorder import RecordingStopped, Stoppable
from emulator.record.recording import RecordingPlan, Target
from emulator.record.rtt_curve import RttCurve, curve_of
from web.service import UseCases

RECORDING, DONE, INTERRUPTED, FAILED = "recording", "done", "interrupted", "failed"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
MOST_RECORDINGS = 100
PERIOD_S = 1.0
"""An active recording is told to watchers at most so often."""

T = TypeVar("T")
log = logging.getLogger("longhaul.web")


class RecordingRequest(Struct, frozen=True):
    """What to record: an active lane, or else the path from here to a host's address. `name` is the folder's, the
    first free one when empty; with `rate` both directions are loaded for a short time, too."""

    lane: str = ""
    host: str = ""
    name: str = ""
    plan: RecordingPlan = field(default_factory=RecordingPlan)
    rate: bool = False

    @property
    def label(self) -> str:
        """What is recorded, for people."""
        return self.lane or self.host


class Recording(Struct, frozen=True):
    """A recording and what is known of it. `source` is None before its first probe.

    `began_ms` is since 1970. `probes` counts those known so far, `answered` the answered ones and `last_ns` is the
    latest round trip; they are zero and None where the recording was not made by this server. `trouble` is the error
    that ended it, or why its folder cannot be read. Of two states the one with the larger `version` is newer.
    """

    name: str
    state: str
    label: str
    source: RecordingSource | None = None
    began_ms: int | None = None
    for_ns: int | None = None
    probes: int = 0
    answered: int = 0
    last_ns: int | None = None
    step: str = ""
    profile: PathProfile | None = None
    trouble: str = ""
    version: int = 0


class Paths(Protocol):
    """The ends of a path; the tests have others."""

    def to_host(self, address: str, by: str) -> AbstractContextManager[Target]:
        """From this machine to an address."""

    def over_lane(self, topology: Topology, name: str, by: str) -> AbstractContextManager[Target]:
        """From the hub's host to a site's."""


class Recordings:
    """One recording at a time, and all that are kept. `say` is called with each newer state of the active one."""

    def __init__(
        self, folder: Path, usecases: UseCases, say: Callable[[Recording], object], paths: Paths | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._folder, self._usecases, self._say, self._clock = folder, usecases, say, clock
        self._paths: Paths = paths or recording
        self._turn = threading.RLock()
        self._thread: threading.Thread | None = None
        self._stoppable: Stoppable | None = None
        self._stopping = False
        self._said_s = 0.0
        self._version = 0
        self._profiles: dict[tuple[str, int], PathProfile] = {}
        self._curve = RttCurve(0, 1)
        self.last: Recording | None = None

    def start(self, asked: RecordingRequest) -> Recording:
        """Begin to record. Raises InputError for what cannot be recorded, RefusedError while another one is active."""
        with self._turn:
            if self.active:
                raise RefusedError("a recording is active: wait for its end, or stop it")
            topology = self._usecases.topology()
            if wrong := self._mistakes(asked, topology):
                raise InputError(wrong)
            name, began_ms = asked.name or self._free(asked.label), round(time.time() * 1000)
            self.last = Recording(name, RECORDING, asked.label, None, began_ms, asked.plan.for_ns)
            self._step(step="begins")
            self._stoppable, self._stopping = None, False
            self._curve = RttCurve(asked.plan.for_ns, asked.plan.every_ns)
            self._thread = threading.Thread(
                target=self._run, args=(asked, name, topology), name="recording", daemon=True
            )
            self._thread.start()
            return self.last

    @property
    def active(self) -> bool:
        """Whether one is being made."""
        return self.last is not None and self.last.state == RECORDING

    def stop(self, name: str) -> Recording:
        """End a recording early; what it has measured is kept. Raises KeyError when it is not active."""
        with self._turn:
            if not (self.active and self.last and self.last.name == name):
                raise KeyError(name)
            self._stopping = True
            if self._stoppable:
                self._stoppable.stop()
            self._step(step="ends")
            return self.last

    def end(self) -> None:
        """Stop the active one and wait until it is kept."""
        with self._turn:
            if self.last and self.active:
                self.stop(self.last.name)
        self.wait()

    def wait(self) -> None:
        """Wait for the end of the active one."""
        with self._turn:
            thread = self._thread
        if thread:
            thread.join()

    def all(self) -> list[Recording]:
        """All of them, the newest first."""
        names, last, found = self._names(), self.last, list[Recording]()
        for name in names:
            with suppress(KeyError):  # somebody has just deleted it
                found.append(self.get(name))
        if last and last.name not in names:
            found.append(last)
        return sorted(found, key=lambda one: (one.source.at if one.source else "~", one.name), reverse=True)

    def get(self, name: str) -> Recording:
        """One of them. Raises KeyError."""
        last = self.last  # somebody may delete it meanwhile
        if last and last.name == name and (last.state == RECORDING or not self._is_kept(name)):
            return last
        folder = self.folder(name)
        try:
            source = file.source(folder)
            profile = self._profile(folder)
        except InputError as error:
            return Recording(name, FAILED, name, trouble=str(error))
        trouble = last.trouble if last and last.name == name else ""
        return Recording(name, DONE if profile else INTERRUPTED, source.host, source, profile=profile, trouble=trouble)

    def curve(self, name: str) -> RttCurve:
        """The round trips of one over time, of an active one so far. Raises KeyError, InputError."""
        with self._turn:
            if self.active and self.last and self.last.name == name:
                return copy.deepcopy(self._curve)
        source, sent, _ = file.recorded(self.folder(name))
        return curve_of(sent, source.every_ns)

    def folder(self, name: str) -> Path:
        """Where a recording is kept. Raises KeyError."""
        if not self._is_kept(name):
            raise KeyError(name)
        return self._folder / name

    def finish(self, name: str, step_ns: int) -> Recording:
        """Compute the profile of an interrupted one. Raises KeyError, InputError; RefusedError while it is active."""
        self._refuse_active(name)
        recording.finish(self.folder(name), step_ns)
        return self.get(name)

    def remove(self, name: str) -> None:
        """Delete one. Raises KeyError; RefusedError while it is active."""
        with self._turn:
            self._refuse_active(name)
            if self._is_kept(name):
                shutil.rmtree(self._folder / name)
            elif self.last is None or self.last.name != name:
                raise KeyError(name)
            if self.last and self.last.name == name:
                self.last = None

    def _refuse_active(self, name: str) -> None:
        if self.active and self.last and self.last.name == name:
            raise RefusedError(f"{name} is being recorded: stop it first")

    def _names(self) -> list[str]:
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted(path.name for path in found if self._is_kept(path.name))

    def _is_kept(self, name: str) -> bool:
        return NAME.fullmatch(name) is not None and (self._folder / name).is_dir()

    def _profile(self, folder: Path) -> PathProfile | None:
        """The computed profile; None before."""
        try:
            stamp = (folder.name, (folder / PROFILE).stat().st_mtime_ns)
        except OSError:
            return None
        if stamp not in self._profiles:
            self._profiles[stamp] = file.load(folder)
        return self._profiles[stamp]

    def _mistakes(self, asked: RecordingRequest, topology: Topology | None) -> list[Mistake]:
        wrong = [(name, text) for name, text in asked.plan.mistakes]
        sites = topology.sites if topology else ()
        if bool(asked.lane) == bool(asked.host):
            wrong.append(("host", "name a host's address or a lane, one of them"))
        elif asked.lane and asked.lane not in sites:
            wrong.append(("lane", no_such("lane", asked.lane, sites)))
        elif asked.host and not recording.is_address(asked.host):
            wrong.append(("host", "use a host's name or address"))
        if asked.name and not NAME.fullmatch(asked.name):
            wrong.append(("name", f"{asked.name!r} is no name: use at most 40 letters, digits, _ and -, such as paris"))
        elif asked.name in (names := self._names()):
            wrong.append(("name", f"there is a recording {asked.name} already: use another name, or delete that one"))
        elif len(names) >= MOST_RECORDINGS:
            wrong.append(("", f"{MOST_RECORDINGS} recordings are kept: delete one first"))
        return [Mistake("request", name, text) for name, text in wrong]

    def _free(self, label: str) -> str:
        """The first free name for a recording of this."""
        base = re.sub(r"[^A-Za-z0-9_-]+", "-", label).strip("-_")[:32] or "path"
        names, count = self._names(), 1
        while (name := base if count == 1 else f"{base}-{count}") in names:
            count += 1
        return name

    def _run(self, asked: RecordingRequest, name: str, topology: Topology | None) -> None:
        """Record, compute the profile of what was measured, and tell the end."""
        folder = self._folder / name
        _, trouble = _attempted(lambda: self._record(asked, folder, topology))
        profile, wrong = _attempted(lambda: self._computed(folder, asked.plan.step_ns))
        if profile is None and not wrong:
            trouble = trouble or "no probe was answered: is the host up, and does it answer ping?"
        source, state = (profile.source, DONE) if profile else (None, FAILED)
        self._step(state=state, step="", profile=profile, source=source, trouble=wrong or trouble)

    def _record(self, asked: RecordingRequest, folder: Path, topology: Topology | None) -> None:
        by, at = asked.plan.by, datetime.now(UTC).isoformat(timespec="milliseconds")
        assert topology or not asked.lane
        path = (
            self._paths.over_lane(topology, asked.lane, by)
            if topology and asked.lane
            else self._paths.to_host(asked.host, by)
        )
        with path as ends:
            stoppable = Stoppable(ends.end)
            with self._turn:
                if self._stopping:
                    raise RecordingStopped
                self._stoppable = stoppable
                self._step(step="probes")
            through = replace(ends, end=stoppable)
            recording.record(through, asked.label, at, folder, asked.plan, self._probed)
            if asked.rate and not self._stopping:
                self._step(step="rates")
                recording.measure_rates(through, folder)

    def _probed(self, probe: RecordedProbe) -> None:
        with self._turn:
            assert self.last
            self._curve.add(probe)
            answered = probe.rtt_ns is not None
            self.last = replace(
                self.last, probes=self.last.probes + 1, answered=self.last.answered + answered,
                last_ns=probe.rtt_ns if answered else self.last.last_ns,
            )  # fmt: skip
            if self._clock() - self._said_s >= PERIOD_S:
                self._step()

    def _computed(self, folder: Path, step_ns: int) -> PathProfile | None:
        """The profile of a recording; None, and no folder any more, where no probe was answered."""
        if folder.is_dir() and file.has_answers(folder):
            self._step(step="profile")
            return recording.finish(folder, step_ns)
        shutil.rmtree(folder, ignore_errors=True)
        return None

    def _step(self, **said: Any) -> None:
        """Say something newer of the active recording."""
        with self._turn:
            assert self.last
            self._version += 1
            self.last = replace(self.last, version=self._version, **said)
            self._said_s = self._clock()
            self._say(self.last)


def _attempted(work: Callable[[], T]) -> tuple[T | None, str]:
    """What the work returns, and the error that ended it; neither where somebody stopped the recording."""
    try:
        return work(), ""
    except RecordingStopped:
        return None, ""
    except LonghaulError as error:
        return None, str(error)
    except Exception as error:
        log.exception("recording")
        return None, f"{type(error).__name__}: {error}"
