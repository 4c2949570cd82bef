"""What a test gives and gets: a lane, a program, a measured cell, and the law of several cells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Required, TypedDict

if TYPE_CHECKING:
    from emulator.analysis.program_law import ProgramLaw
    from emulator.experiment.program_result import ProgramResult

NS = 10**9
DEFAULT_PROFILE = "default"
ONE_VALUE = "a lane has one value of each setting; for several, mark the test with @pytest.mark.longhaul"


class LonghaulProgram(TypedDict, total=False):
    """A program, in the words of `longhaul sweep`: the commands of both ends, and when the server is ready.

    `bytes` is a size such as "1MiB", `time_limit` a time such as "1min". `project` is the folder that the programs may
    read as $PROJECT: the root of the tests without it.
    """

    client: Required[str]
    server: str
    ready: str
    prepare: str
    bytes: str
    repeat: int
    time_limit: str
    project: str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class LonghaulLane:
    """A lane, in the words of `longhaul sweep`: one value of each, and what is not given is the command's default.

    `file` is a topology file, and `name` the lane of it; relative to the root of the tests. The TCP profile is the
    kernel's default unless `tcp_profile` or `window` says otherwise.
    """

    rtt: str = ""
    rate: str = ""
    loss: str = ""
    mtu: str = ""
    cc: str = ""
    tcp_profile: str = ""
    window: str = ""
    initcwnd: str = ""
    direction: str = ""
    file: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list | tuple | set | dict):
                raise TypeError(f"{field.name}={value!r}: {ONE_VALUE}")
            if field.name != "file":
                # A bare number is what it is for the command: an RTT in ms, an MTU in bytes.
                object.__setattr__(self, field.name, "" if value is None else str(value))

    def __repr__(self) -> str:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return f"lane({', '.join(f'{name}={value!r}' for name, value in given.items() if value)})"

    def options(self) -> Iterator[str]:
        """The lane as arguments of the command, without its file."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "tcp_profile" and not (value or self.window):
                value = DEFAULT_PROFILE
            if value and field.name != "file":
                yield f"--{'lane' if field.name == 'name' else field.name.replace('_', '-')}"
                yield str(value)


@dataclass(frozen=True, repr=False)
class LonghaulCell:
    """A program that was measured over a lane. Its outputs are of the client's first run, and of the server.

    `command` repeats it by hand. `result` is all that was measured, as `longhaul sweep --json` prints it.
    """

    result: ProgramResult
    command: str
    stdout: str
    stderr: str
    server_stdout: str
    server_stderr: str

    def __repr__(self) -> str:
        from emulator import units
        from emulator.analysis.program_law import seconds_text

        spec, void = self.result.spec, "" if self.valid else ", invalid"
        path = f"{units.format_duration(spec.lane.rtt_ns)}, {units.format_rate(spec.path.rate_bps)}"
        return f"<cell at {path}: {seconds_text(self.seconds)}, limited by {self.verdict}{void}>"

    @property
    def seconds(self) -> float:
        """How long the client took, from its start to its exit: the mean of all runs."""
        return self.result.figure

    @property
    def all_seconds(self) -> tuple[float, ...]:
        """How long each run of the client took."""
        return self.result.program.completion_s

    @property
    def rtt_seconds(self) -> float:
        """The lane's round-trip time."""
        return self.result.spec.lane.rtt_ns / NS

    @property
    def round_trips(self) -> float:
        """The time divided by the RTT. Raises ZeroDivisionError at RTT 0."""
        return self.seconds / self.rtt_seconds

    @property
    def verdict(self) -> str:
        """What limited it: "slow start (49%), line (32%)"."""
        return self.result.judgement.limiter

    @property
    def reason(self) -> str:
        """The evidence for the verdict, in words."""
        return self.result.judgement.evidence

    @property
    def advice(self) -> str:
        """What would make it faster, and by how much; empty where nothing is known."""
        return self.result.judgement.advice

    @property
    def invalid(self) -> tuple[str, ...]:
        """Why the figures cannot be true; empty for a valid cell."""
        return self.result.judgement.invalid

    @property
    def valid(self) -> bool:
        """Whether no check objects."""
        return not self.invalid

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing besides."""
        return self.result.notes

    @property
    def connections(self) -> int:
        """TCP connections of the median run."""
        return len(self.result.program.median.connections)

    @property
    def retransmits(self) -> int:
        """Segments that the median run sent again."""
        return self.result.program.median.retransmits

    @property
    def sent_bytes(self) -> int:
        """TCP payload from the client in the median run."""
        return self.result.program.median.payload_sent_bytes

    @property
    def received_bytes(self) -> int:
        """TCP payload to the client in the median run."""
        return self.result.program.median.payload_received_bytes

    @property
    def first_byte_seconds(self) -> float | None:
        """When the client received the first payload; None when it received none."""
        frames = self.result.program.frames
        return None if frames is None or frames.first_byte_ns is None else frames.first_byte_ns / NS


@dataclass(frozen=True, repr=False)
class LonghaulLaw:
    """completion time = own time + round trips x RTT + bytes / rate, fitted over `cells`; `text` is the sentence."""

    fitted: ProgramLaw
    text: str
    cells: tuple[LonghaulCell, ...]

    def __repr__(self) -> str:
        return f"<law: {self.text}>"

    @property
    def round_trips(self) -> float:
        """The round trips that the program costs, whatever the RTT."""
        return self.fitted.round_trips

    @property
    def round_trips_half_width(self) -> float:
        """Half of their 99 % interval; infinite with two RTTs."""
        return self.fitted.round_trips_half

    @property
    def own_seconds(self) -> float:
        """The time that depends neither on the RTT nor on the rate."""
        return self.fitted.own_s

    def seconds_at(self, rtt: str) -> float:
        """The predicted completion time at another RTT, with rate and bytes of the first cell. Raises ValueError."""
        from emulator import units

        point = self.fitted.points[0]
        rtt_ns = units.parse_duration_ns(rtt)
        return self.fitted.predict(rtt_ns, point.rate_bps, point.bytes, point.mtu).completion_s
