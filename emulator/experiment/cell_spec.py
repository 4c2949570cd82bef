"""A cell as it is asked for, to JSON and back; `result_migrations` reads older formats."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from emulator import units
from emulator.analysis import tcp_path, throughput_models, tuning_advice
from emulator.analysis.verdict import Buffers
from emulator.hosts.tools import workloads
from emulator.hosts.tools.workload import Load, Workload
from emulator.model import loss_model
from emulator.model.impairment import Impairment
from emulator.model.sweep_axes import BOTH, INBOUND, OUTBOUND
from emulator.model.tcp_profile import Profile
from emulator.model.topology import Lane, Topology
from emulator.system import struct_json

INTERVALS = 50
LONGEST_STEM, STEM_DIGITS = 180, 16
KERNEL_BUFFERS = Buffers(6 * 2**20, 4 * 2**20)
"""The kernel's own limits, for profiles without limits (tcp_rmem, tcp_wmem up to Linux 6.12)."""


def buffers_of(profile: Profile) -> Buffers:
    """The largest socket buffers of a host under a profile."""
    receive, send = profile.tcp_rmem, profile.tcp_wmem
    return Buffers(
        receive[2] if receive else KERNEL_BUFFERS.receive_bytes,
        send[2] if send else KERNEL_BUFFERS.send_bytes,
        profile.window,
    )


class CellSpec(Struct, frozen=True):
    """One measurement: a topology of one lane with a bottleneck, the hosts' TCP, streams, direction and duration.

    `repeat` counts the measurements of the same cell from 0; each has its own seed (`again`). `counted`: the clock of
    its lab counts computing, too. `varied` are settings of the lane that its name tells, as axes have them. `kernel` is
    its lab's kernel by name, where a sweep compares several.
    """

    topology: Topology
    profile: Profile
    streams: int
    congestion_control: str | None
    duration_s: int
    direction: str = OUTBOUND
    repeat: int = 0
    workload: Workload = workloads.STREAMS
    counted: bool = False
    varied: tuple[str, ...] = ()
    kernel: str = ""

    @property
    def lane(self) -> Lane:
        """The measured lane, between the hub and its site."""
        return self.topology.lanes[0]

    @property
    def impairment(self) -> Impairment:
        """The impairment of the data's direction; in a cell of both directions, outbound's."""
        return self.lane.inbound if self.direction == INBOUND else self.lane.outbound

    @property
    def ways(self) -> tuple[CellSpec, ...]:
        """The cell in each single direction that it measures."""
        names = (OUTBOUND, INBOUND) if self.direction == BOTH else (self.direction,)
        return tuple(replace(self, direction=name) for name in names)

    @property
    def path(self) -> tcp_path.TcpPath:
        """The path as the analysis needs it. Raises ValueError without a bottleneck."""
        way = self.impairment
        if way.rate_bps is None:
            raise ValueError(f"lane {self.lane.name} has no rate: a cell needs a bottleneck")
        algorithm = self.congestion_control or self.profile.congestion_control or "cubic"
        frame = self.lane.mtu + tcp_path.ETHERNET_HEADER_BYTES
        buffer_bytes = way.buffer.to_bytes(way.rate_bps, frame) if way.buffer else None
        own = (way.mean_loss, self.streams, algorithm, buffer_bytes)
        return tcp_path.TcpPath(way.rate_bps, self.lane.rtt_ns, self.lane.mtu, *own)

    @property
    def buffers(self) -> Buffers:
        """The largest socket buffers of a host under the profile."""
        return buffers_of(self.profile)

    @property
    def prediction(self) -> throughput_models.Prediction:
        """The prediction, before any measurement; in a cell of both directions, that of the slower one."""
        if len(self.ways) > 1:
            return min((way.prediction for way in self.ways), key=lambda said: said.bytes_per_s)
        allowed = tuning_advice.windows(self.buffers, self.buffers)
        initcwnd = self.profile.initcwnd or tcp_path.INITCWND_SEGMENTS
        return throughput_models.predict(self.path, allowed, self.duration_s * tcp_path.NS, initcwnd=initcwnd)

    @property
    def expected_bytes_per_s(self) -> float:
        """The throughput that full buffers allow, to estimate block sizes and the cell's duration."""
        receive = self.buffers.window_bytes or self.buffers.receive_bytes
        full = throughput_models.Windows(receive, self.buffers.send_bytes)
        return throughput_models.predict(self.path, full).bytes_per_s

    @property
    def load(self) -> Load:
        """The parameters of the workload; the receiver reports about fifty intervals of 0.1 to 1 s."""
        return Load(
            duration_s=self.duration_s,
            streams=self.streams,
            congestion_control=self.congestion_control,
            both=self.direction == BOTH,
            interval_s=max(0.1, min(1.0, round(self.duration_s / INTERVALS, 1))),
            expected_bytes_per_s=self.expected_bytes_per_s,
            rtt_ns=self.lane.rtt_ns,
        )

    @property
    def column(self) -> str:
        """The settings that all cells of its column in the table share."""
        return ", ".join(self._shared(with_rate=True))

    @property
    def series(self) -> str:
        """The settings that all cells of a program share, whatever their RTT and rate."""
        return ", ".join(self._shared(with_rate=False))

    def _shared(self, *, with_rate: bool) -> list[str]:
        initcwnd = f"initcwnd {self.profile.initcwnd}" if self.profile.initcwnd else ""
        own = (self.profile.name, self.workload.title(self.load), self.congestion_control, initcwnd)
        return [part for part in (*own, *self._odd(" ", with_rate=with_rate)) if part]

    def _odd(self, blank: str, *, with_rate: bool = True) -> list[str]:
        """The cell's settings besides RTT, profile and workload that differ from the defaults."""
        way = self.impairment
        rate_bps = way.rate_bps if with_rate and way.rate_bps != self.lane.line_rate_bps else None
        return [
            *([self.direction] if self.direction != OUTBOUND else []),
            *([f"MTU{blank}{self.lane.mtu}"] if self.lane.mtu != 1500 else []),
            *([units.format_rate(rate_bps)] if rate_bps else []),
            *([f"CPU{blank}counted"] if self.counted else []),
            *(one.replace(" ", blank) for one in self.varied),
            *([f"kernel{blank}{self.kernel}"] if self.kernel else []),
            *([f"loss{blank}{loss_model.format_loss(way.loss_p32, way.loss_model)}"] if way.mean_loss else []),
        ]

    @property
    def id(self) -> str:
        """The cell's name, unique in its grid; the repeats of a cell share it."""
        initcwnd = f"initcwnd{self.profile.initcwnd}" if self.profile.initcwnd else None
        rtt = units.compact(units.format_duration(self.lane.rtt_ns))
        workload = self.workload.part(self.load)
        parts = (self.lane.name, rtt, self.profile.name, workload, self.congestion_control, initcwnd)
        return "-".join([part for part in parts if part] + [units.compact(odd) for odd in self._odd("")])

    @property
    def stem(self) -> str:
        """The name of the measurement's files, without a suffix; long ids end in a digest: file systems allow names of
        255 bytes."""
        name = self.id
        if len(name) > LONGEST_STEM:
            digest = hashlib.sha256(name.encode()).hexdigest()
            name = f"{name[: LONGEST_STEM - STEM_DIGITS]}-{digest[:STEM_DIGITS]}"
        return f"{name}.{self.repeat}"

    def again(self, repeat: int) -> CellSpec:
        """The next repeat of the cell, with its own seed: in the lab the same seed would give the same bytes."""
        seed = self.topology.seed - self.repeat + repeat
        return replace(self, topology=replace(self.topology, seed=seed), repeat=repeat)

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON, for a file: the topology is the text of one of its own."""
        from emulator.config import loader  # slow to import, with YAML and schemas; a cell in its lab needs neither

        return self._to_json(loader.dumps(self.topology))

    def for_lab(self) -> dict[str, Any]:
        """The spec as JSON for its lab, or back from there: the topology is its plain value."""
        return self._to_json(struct_json.to_plain(self.topology))

    def _to_json(self, topology: Any) -> dict[str, Any]:
        return {
            "topology": topology,
            "tcp_profile": json.loads(json.dumps(asdict(self.profile))),
            "streams": self.streams,
            "congestion_control": self.congestion_control,
            "duration_s": self.duration_s,
            "direction": self.direction,
            "repeat": self.repeat,
            "workload": workloads.to_json(self.workload),
            **({"counted": True} if self.counted else {}),
            **({"varied": list(self.varied)} if self.varied else {}),
            **({"kernel": self.kernel} if self.kernel else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CellSpec:
        """The inverse of `to_json` and `for_lab`. Raises InputError, ValueError, KeyError, TypeError."""
        values = dict(value)
        if "profile" in values:  # until format 3
            values["tcp_profile"] = values.pop("profile")
        profile: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.pop("tcp_profile").items()
        }
        topology = _topology(values.pop("topology"))
        values["varied"] = tuple(values.get("varied", ()))
        if "workload" in values:  # there was one kind only, before
            values["workload"] = workloads.from_json(values["workload"])
        return cls(topology, Profile(**profile), **values)


def _topology(value: Any) -> Topology:
    if not isinstance(value, str):
        return struct_json.from_plain(Topology, value)
    from emulator.config import loader

    return loader.loads(value, "cell")
