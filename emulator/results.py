"""Cells as values, and run folders on disk: versioned JSON, each file written whole or not at all.

RUN/run.json          what was asked for, when, by which version
RUN/cells/ID.json     one cell's result, written the moment it is there
RUN/results.json      all results together, in the grid's order
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from emulator import analysis, topologyfile, units
from emulator.analysis import Interval
from emulator.errors import InputError
from emulator.model import Lane, Profile, Topology

FORMAT = 1


@dataclass(frozen=True)
class CellSpec:
    """One measurement: a topology of one lane with a bottleneck, the hosts' TCP, the streams and how long."""

    topology: Topology
    profile: Profile
    streams: int
    congestion_control: str | None
    duration_s: int

    @property
    def lane(self) -> Lane:
        """The lane that is measured, from the hub to its site."""
        return self.topology.lanes[0]

    @property
    def path(self) -> analysis.Path:
        """What the analysis needs to know of it. Raises ValueError without a bottleneck."""
        outbound = self.lane.outbound
        if outbound.rate_bps is None:
            raise ValueError(f"lane {self.lane.name} has no rate: a cell needs a bottleneck")
        algorithm = self.congestion_control or self.profile.congestion_control or "cubic"
        loss = outbound.mean_loss
        return analysis.Path(outbound.rate_bps, self.lane.rtt_ns, self.lane.mtu, loss, self.streams, algorithm)

    @property
    def expected_bytes_per_s(self) -> float:
        """A guess from the profile's buffers, made before anything is measured."""
        return analysis.predict(self.path, self.profile.tcp_rmem[2] if self.profile.tcp_rmem else 4 * 2**20).bytes_per_s

    @property
    def column(self) -> str:
        """What the cell has in common with its column of the table."""
        streams = "1 stream" if self.streams == 1 else f"{self.streams} streams"
        return ", ".join(part for part in (self.profile.name, streams, self.congestion_control) if part)

    @property
    def id(self) -> str:
        """A file name that tells the cells of one grid apart."""
        algorithm = f"-{self.congestion_control}" if self.congestion_control else ""
        rtt = units.compact(units.format_duration(self.lane.rtt_ns))
        return f"{self.lane.name}-{rtt}-{self.profile.name}-{self.streams}{algorithm}"

    def to_json(self) -> dict[str, Any]:
        """For a file or the lab's command line."""
        return {
            "topology": topologyfile.dumps(self.topology),
            "profile": json.loads(json.dumps(asdict(self.profile))),
            "streams": self.streams,
            "congestion_control": self.congestion_control,
            "duration_s": self.duration_s,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CellSpec:
        """The inverse of `to_json`. Raises InputError, KeyError, TypeError."""
        profile: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value["profile"].items()}
        topology = topologyfile.loads(value["topology"], "cell")
        streams, algorithm, duration_s = (value[k] for k in ("streams", "congestion_control", "duration_s"))
        return cls(topology, Profile(**profile), streams, algorithm, duration_s)


@dataclass(frozen=True)
class CellResult:
    """What one cell measured. Throughputs are payload at the receiver; windows are of one stream.

    `window_bytes` is the mean in flight over the steady part, `drops_limit` None where loss makes it unknowable.
    An empty `invalid` means that nothing speaks against the numbers.
    """

    spec: CellSpec
    rtt_ns: int
    steady_bytes_per_s: float
    steady_from_s: float
    settled: bool
    mean_bytes_per_s: float
    first_10s_bytes_per_s: float
    predicted_bytes_per_s: float
    predicted_limit: str
    limiter: str
    evidence: str
    invalid: tuple[str, ...]
    window_bytes: int
    peer_window_bytes: int
    send_buffer_bytes: int
    rwnd_share: float
    sndbuf_share: float
    loaded_rtt_ns: int
    retransmits: int
    sent_bytes: int
    received_bytes: int
    drops_limit: int | None
    drops_buffer: int
    drops_loss: int | None
    counters: dict[str, int]
    sender_cpu_percent: float
    receiver_cpu_percent: float
    kernel: str
    tool: str
    notes: tuple[str, ...]
    intervals: tuple[Interval, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything, with the intervals as [start_s, end_s, bytes]."""
        flat = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        intervals = [[i.start_s, i.end_s, i.bytes] for i in self.intervals]
        return {**flat, "format": FORMAT, "spec": self.spec.to_json(), "intervals": intervals}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CellResult:
        """The inverse of `to_json`. Raises KeyError, TypeError, ValueError on anything else."""
        values = {k: v for k, v in value.items() if k != "format"}
        values["spec"] = CellSpec.from_json(values["spec"])
        values["intervals"] = tuple(Interval(*i) for i in values["intervals"])
        values |= {key: tuple(values[key]) for key in ("invalid", "notes")}
        return cls(**values)


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole: after a crash the old content or the new one stands there, never a part."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


@dataclass(frozen=True)
class RunFolder:
    """One execution of a sweep on disk; it can be taken up again."""

    path: Path

    @classmethod
    def create(cls, path: Path, facts: Mapping[str, Any], specs: Sequence[CellSpec], in_lab: bool) -> RunFolder:
        """Make the folder and keep what was asked for; `facts` is whatever else is worth knowing."""
        try:
            (path / "cells").mkdir(parents=True)
        except OSError as error:
            raise InputError.single(f"the run folder cannot be made: {error.strerror}", str(path)) from None
        asked = {"format": FORMAT, **facts, "in_lab": in_lab, "cells": [spec.to_json() for spec in specs]}
        write_atomically(path / "run.json", json.dumps(asked, indent=1) + "\n")
        return cls(path)

    def asked(self) -> tuple[list[CellSpec], bool]:
        """The cells that were asked for, and whether in the lab. Raises InputError when this is no run folder."""
        file = self.path / "run.json"
        asked = _read(file)
        try:
            return [CellSpec.from_json(cell) for cell in asked["cells"]], asked["in_lab"]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError.single(f"cannot be read as a run: {error}", str(file)) from None

    def save(self, result: CellResult) -> None:
        """Keep one result."""
        text = json.dumps(result.to_json(), indent=1) + "\n"
        write_atomically(self.path / "cells" / f"{result.spec.id}.json", text)

    def finished(self, specs: Iterable[CellSpec]) -> dict[str, CellResult]:
        """The results that are here already of exactly these cells, by id. Raises InputError on a spoilt file."""
        found = {}
        for spec in specs:
            file = self.path / "cells" / f"{spec.id}.json"
            if file.exists() and (result := _load(file)).spec == spec:
                found[spec.id] = result
        return found

    def write_results(self, results: Iterable[CellResult]) -> None:
        """All results in one file."""
        value = {"format": FORMAT, "cells": [result.to_json() for result in results]}
        write_atomically(self.path / "results.json", json.dumps(value, indent=1) + "\n")

    def write(self, name: str, text: str) -> None:
        """Another file of the run: table.md, table.csv."""
        write_atomically(self.path / name, text)


def _read(file: Path) -> dict[str, Any]:
    """A JSON file of this format. Raises InputError."""
    try:
        value = json.loads(file.read_text("utf-8"))
        found = value.get("format")
    except (ValueError, AttributeError, OSError) as error:
        raise InputError.single(f"cannot be read: {error}", str(file)) from None
    if found != FORMAT:
        raise InputError.single(f"is of format {found}; this version reads {FORMAT}", str(file))
    return dict(value)


def _load(file: Path) -> CellResult:
    try:
        return CellResult.from_json(_read(file))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError.single(f"cannot be read as a result: {error}; delete it", str(file)) from None
