"""Certificates: a request pings every pair of hosts and compares requested and measured RTTs; each is kept as JSON."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import computed_field
from pydantic.dataclasses import dataclass

from emulator.control.status import Status
from emulator.errors import InputError
from emulator.experiment import engine_lateness, rtt_certificate
from emulator.experiment.run_folder import write_atomically
from emulator.hosts.tools import time_tolerance
from emulator.model.topology import Topology
from emulator.system import atomic_file, bounded_file, kept_file
from web import dated_names
from web.api.schemas import Answer

KEPT = 100
log = logging.getLogger("longhaul.web")
Measure = Callable[[Topology, int, int], Iterator[rtt_certificate.Pair]]


@dataclass(frozen=True)
class PairAnswer(rtt_certificate.Pair):
    """The RTT between two hosts in ns: requested, measured, and the allowed difference."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def passed(self) -> bool:
        """Whether the difference is allowed and no echo was lost."""
        return super().passed


@dataclass(frozen=True)
class LateAnswer(engine_lateness.Late):
    """How late the wire engine was during the measurement, in ns."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def passed(self) -> bool:
        """Whether the machine was prompt enough for the figures to be valid."""
        return super().passed


class ProofAnswer(Answer):
    """One impairment of a direction: requested, measured, and the interval that a requested value must lie in."""

    lane: str
    flow: str | None
    direction: str
    what: str
    unit: str
    asked: float
    measured: float
    low: float
    high: float
    passed: bool


class CertificateAnswer(Answer):
    """The requested settings, what the kernel held, the measurements, and the tools.

    `unanswered` are pairs without an answer, `impairments` the rows of lanes where they were measured, too.
    """

    id: str
    created: str
    format: int
    passed: bool
    version: str
    kernel: str
    datapath: str
    seed: int
    count: int
    tolerance_ns: int
    topology: str
    installed: list[dict[str, Any]]
    lateness: tuple[LateAnswer, ...] = ()
    pairs: list[PairAnswer]
    unanswered: tuple[rtt_certificate.Unanswered, ...] = ()
    impairments: tuple[ProofAnswer, ...] = ()
    reasons: tuple[rtt_certificate.PairReasons, ...] = ()


class CertificatesAnswer(Answer):
    """All certificates, newest first."""

    certificates: list[CertificateAnswer]


class Certificates:
    """The certificates in one folder."""

    def __init__(self, folder: Path, measure: Measure = rtt_certificate.measure) -> None:
        self._folder, self._measure, self._writing = folder, measure, threading.Lock()

    def make(self, look: Callable[[], Status], count: int) -> CertificateAnswer:
        """Measure now; read the kernel's state before and after. Raises InputError when nothing is up, MeasureError."""
        status = look()
        if status.topology is None:
            raise InputError.single("nothing is up: bring a topology up first", "request")
        allowed_ns = time_tolerance.rtt_tolerance_ns()
        pairs = tuple(self._measure(status.topology, count, allowed_ns))
        return self.keep(rtt_certificate.certificate(status, look(), count, allowed_ns, pairs))

    def keep(self, made: rtt_certificate.Certificate) -> CertificateAnswer:
        """Write the certificate; the oldest beyond KEPT go."""
        with self._writing:
            now = datetime.now(UTC)
            name = dated_names.free(self._folder, now, ".json")
            value = {"id": name, "created": now.isoformat(timespec="seconds"), **made.to_json()}
            atomic_file.folder(self._folder)
            write_atomically(self._folder / f"{name}.json", json.dumps(value, indent=1) + "\n")
            for old in self._names()[KEPT:]:
                (self._folder / f"{old}.json").unlink(missing_ok=True)
        return CertificateAnswer.model_validate(value)

    def all(self) -> CertificatesAnswer:
        """All certificates, newest first, without those that are spoilt."""
        return CertificatesAnswer(certificates=list(self.newest()))

    def newest(self) -> Iterator[CertificateAnswer]:
        """The same one by one, each read when it is wanted."""
        for name in self._names():
            try:
                yield self.get(name)
            except (InputError, KeyError) as error:
                log.warning("a certificate is skipped: %s", error)

    def get(self, name: str) -> CertificateAnswer:
        """One certificate. Raises KeyError, or InputError when its file is spoilt."""
        path = self._folder / f"{name}.json"
        if not dated_names.PATTERN.fullmatch(name) or not path.exists():
            raise KeyError(name)
        try:
            return CertificateAnswer.model_validate_json(kept_file.read(path, bounded_file.CERTIFICATE))
        except FileNotFoundError:  # a newer one has just replaced it
            raise KeyError(name) from None
        except ValueError as error:  # pydantic's too
            why = str(error).splitlines()[0]
            raise InputError.single(f"cannot be read as a certificate: {why}; delete it", str(path)) from None

    def _names(self) -> list[str]:
        found = self._folder.glob("*.json") if self._folder.is_dir() else ()
        return sorted((path.stem for path in found), reverse=True)
