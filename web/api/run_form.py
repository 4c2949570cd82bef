"""A client's request to start a run, and the axes that it may name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from emulator.config import program_schema
from emulator.config.field_types import Switch, text_field
from emulator.config.program_schema import ProgramForm
from emulator.config.sweep_schema import SweepRequest
from emulator.errors import InputError, Mistake
from emulator.experiment import grid
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.hosts.tools import workloads
from emulator.hosts.tools.program import ProgramWorkload
from emulator.hosts.tools.workload import Workload
from emulator.model import flow_group, program, request_load, run_name, sweep_axes
from emulator.model.flow_group import Contest
from emulator.model.program import ProgramError
from emulator.model.sweep_axes import AXES, BOTH, REQUEST_AXES, Axes, SweepAxis
from web.api.schemas import Answer

MOST_CELLS = 1000
RunName = Annotated[
    str,
    text_field(run_name.parse, "a run's name"),
    WithJsonSchema({"type": "string", "examples": ["before the new kernel"]}),
]
DEFAULTS = {"tcp_profile": ("default",)}
"""The default of requests that name neither TCP profiles nor windows."""
OLD_WORDS = {
    **sweep_axes.OLD_WORDS, "rtts": "rtt", "lanes": "lane", "profiles": "tcp_profile", "congestion_controls": "cc",
}  # fmt: skip
"""The old names of axes in requests, which the API reads for one more release."""


class RenameForm(BaseModel):
    """Another name for a run; an empty one removes it."""

    model_config = ConfigDict(extra="forbid")
    name: RunName


class RunForm(SweepRequest):
    """A grid of cells: every combination of the axes, which are those of a topology file's sweep section."""

    in_lab: Switch = Field(default=False, description="run each cell in its own lab")
    name: RunName = Field(default="", description="a name for people; two runs may have the same")

    def axes(self) -> Axes:
        """The axes; without TCP profiles and windows, the default profile. Raises ValueError."""
        apart = ("in_lab", "name", "repeats", "workload")
        given = {key: value for key, value in self if key not in apart and value is not None}
        if self.workload and (self.workload.against or self.workload.pairs):
            return grid.for_flows(Axes(**given))
        return Axes(**({} if given.get("window") else DEFAULTS) | given)

    @property
    def loads(self) -> tuple[Workload, ...]:
        """What runs over every lane; of requests every combination. Raises ProgramError, InputError."""
        if self.workload is None:
            return (workloads.STREAMS,)
        if contests := self._contests:
            return tuple(map(FlowsWorkload, contests))
        if self.workload.requests:
            try:
                return tuple(map(RequestsWorkload, request_load.loads(self._requests)))
            except ValueError as error:
                raise InputError.single(str(error), "request", "workload.requests") from None
        return (ProgramWorkload(program.of_settings(program_schema.settings(self.workload))),)

    @property
    def combinations(self) -> int:
        """The number of cells for one lane, or for each named lane."""
        values = [value for value in self._requests.values() if isinstance(value, tuple)]
        return self.axes().combinations * math.prod(map(len, values)) * max(1, len(self._contests))

    @property
    def _contests(self) -> tuple[Contest, ...]:
        """The groups of flows that share the lane, and each alone; empty for other workloads. Raises InputError."""
        if self.workload is None:
            return ()
        contests = (*(self.workload.against or ()), *flow_group.pairs(self.workload.pairs or ()))
        try:
            return flow_group.with_each_alone(contests)
        except ValueError as error:
            raise InputError.single(str(error), "request", "workload") from None

    @property
    def controls(self) -> list[str]:
        """The congestion controls of all groups of flows. Raises InputError."""
        return list(dict.fromkeys(group.congestion_control for one in self._contests for group in one.groups))

    @property
    def _requests(self) -> dict[str, Any]:
        requests = self.workload.requests if self.workload else None
        return requests.model_dump(exclude_none=True) if requests else {}

    @property
    def most_repeats(self) -> int:
        """Measurements of a cell at most; fewer when its mean is known to 2.5 % after three."""
        repeats: int | None = getattr(self, "repeats")  # noqa: B009  # the table's fields are not typed
        return repeats or 1


STAND_INS = {"client": "true", "server": "true", "ready": "after:1s", "bytes": "1"}
"""What a mistaken setting is taken for, so that those that depend on it are judged nevertheless."""


def program_mistakes(tree: Any, wrong: Set[str]) -> list[Mistake]:
    """The mistakes of a request's program beside those of single settings, whose paths are `wrong`."""
    given = tree.get("workload") if isinstance(tree, Mapping) else None
    if not isinstance(given, Mapping):
        return []
    for alike in (("requests",), ("against", "pairs")):
        if key := next((key for key in alike if key in given), ""):
            others = sorted({*given} - {*alike})
            what = "a program" if key == "requests" else "something else to run"
            text = f"beside {key} there is {what} ({', '.join(others)}): use one of them"
            return [*([Mistake("request", f"workload.{key}", text)] if others else []), *_of_axes(tree, wrong)]
    bad = {path.split(".")[1] for path in wrong if path.startswith("workload.")}
    usable = {key: value for key, value in given.items() if key not in bad}
    usable |= {key: text for key, text in STAND_INS.items() if key in bad}
    return [*_of_program(usable, bad), *_of_axes(tree, wrong)]


def _of_program(settings: Mapping[str, Any], bad: Set[str]) -> list[Mistake]:
    try:
        program.of_settings(program_schema.settings(ProgramForm(**settings)))
    except ProgramError as error:
        found = [(key, text) for key, text in error.mistakes if key.split(".")[0] not in bad]
        return [Mistake("request", f"workload.{key}", text) for key, text in found]
    return []


def _of_axes(tree: Mapping[str, Any], wrong: Set[str]) -> list[Mistake]:
    """The axes that programs and requests do not have."""
    given = {key: RunForm(**{key: tree[key]}) for key in ("streams", "direction") if key in tree and key not in wrong}
    found = []
    if "streams" in given and getattr(given["streams"], "streams") not in (None, (1,)):  # noqa: B009
        found.append(
            Mistake("request", "streams", "programs and requests have connections of their own: remove streams")
        )
    if "direction" in given and BOTH in (getattr(given["direction"], "direction") or ()):  # noqa: B009
        text = "programs and requests have one client: use outbound (the client at the hub) or inbound"
        found.append(Mistake("request", "direction", text))
    return found


class AxisAnswer(Answer):
    """One axis: its key in requests and files, its option, its values. Limits are null where it has none.

    `default` describes what a request without this axis measures.
    """

    key: str
    option: str
    label: str
    help: str
    default: str
    examples: list[str]
    choices: list[str] = Field(description="all values; empty where there are more than can be listed")
    least: str | None
    most: str | None
    single: bool = Field(description="whether it has one value, not a list")


class AxesAnswer(Answer):
    """All axes, in the order of the form; `requests` are those of `workload.requests`."""

    axes: list[AxisAnswer]
    requests: list[AxisAnswer]


def axes_answer() -> AxesAnswer:
    """The tables of axes."""
    return AxesAnswer(axes=list(map(_axis, AXES)), requests=list(map(_axis, REQUEST_AXES)))


def _axis(axis: SweepAxis) -> AxisAnswer:
    limits = [axis.limits[2](value) for value in axis.limits[:2]] if axis.limits else [None, None]
    return AxisAnswer(
        key=axis.key,
        option=axis.option,
        label=axis.label,
        help=axis.help,
        default=axis.default_of_a_request,
        examples=list(axis.examples),
        choices=list(axis.choices),
        least=limits[0],
        most=limits[1],
        single=axis.single,
    )
