"""What a client sends to start a run, and how runs are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from emulator import units
from emulator.config.field_types import Duration, example_schema
from emulator.model import sweep_axes
from web.api.schemas import Answer

if TYPE_CHECKING:
    from emulator.experiment.cell_result import CellSpec
    from web.runs import Run

MOST_CELLS = 1000


def _word(value: Any) -> Any:
    """A name: what begins with a letter and has nothing of an option, a path or a shell in it."""
    if not isinstance(value, str) or not value.replace("-", "").replace("_", "").isalnum() or not value[0].isalpha():
        raise ValueError("a name of letters, digits and - was expected")
    if not value.isascii() or len(value) > 63:
        raise ValueError("a name of at most 63 letters, digits and - was expected")
    return value


def _count(low: int, high: int) -> BeforeValidator:
    def read(value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError("a whole number was expected")
        number = units.parse_count(value)
        if not low <= number <= high:
            raise ValueError(f"{value} is not within {low} and {high}")
        return number

    return BeforeValidator(read)


def _flag(value: Any) -> Any:
    if value not in ("true", "false"):
        raise ValueError("true or false was expected")
    return value == "true"


Name = Annotated[str, BeforeValidator(_word)]


def _axis(key: str) -> BeforeValidator:
    def read(value: Any) -> Any:
        return sweep_axes.parse(key, value if isinstance(value, str) else "")

    return BeforeValidator(read)


Streams = Annotated[int, _axis("streams")]
Algorithm = Annotated[str, _axis("cc"), BeforeValidator(_word)]
Bottleneck = Annotated[int, _axis("rate"), example_schema("10Gbit")]
Flag = Annotated[bool, BeforeValidator(_flag)]


class RunForm(BaseModel):
    """A grid of cells: every combination of RTTs (or lanes), profiles, streams and congestion controls."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rtts: Annotated[list[Duration], Field(min_length=1, max_length=64)] | None = None
    lanes: Annotated[list[Name], Field(min_length=1, max_length=64)] | None = None
    profiles: Annotated[list[Name], Field(min_length=1, max_length=16)] = ["default"]
    streams: Annotated[list[Streams], Field(min_length=1, max_length=16)] = [1]
    congestion_controls: Annotated[list[Algorithm], Field(max_length=8)] = []
    rate: Bottleneck | None = Field(default=None, description="bottleneck both ways; else the lane's own, else 10Gbit")
    duration: Annotated[int, _count(1, 3600)] | None = Field(
        default=None, description="seconds a cell; else by the RTT"
    )
    repeats: Annotated[int, _axis("repeats")] = Field(
        default=1, description="measurements of a cell at most; fewer when its mean is known to 2.5 % after three"
    )
    in_lab: Flag = Field(default=False, description="each cell in a lab of its own")


class CellAnswer(Answer):
    """One cell: what is expected of it and, once it is done, what was measured. Throughput is payload received."""

    id: str
    lane: str
    rtt_ns: int
    column: str
    duration_s: int
    expected_bytes_per_s: float
    state: str
    rtt_measured_ns: int | None = None
    steady_bytes_per_s: float | None = None
    settled: bool | None = None
    limiter: str | None = None
    invalid: tuple[str, ...] = ()
    failure: str | None = None


class RunAnswer(Answer):
    """A run: running, done or stopped; `left_s` is a guess."""

    id: str
    state: str
    trouble: str
    in_lab: bool
    total: int
    finished: int
    left_s: float
    cells: list[CellAnswer]


class RunsAnswer(Answer):
    """The ids of all runs, the newest first."""

    runs: list[str]


def run_answer(run: Run) -> RunAnswer:
    """A run as it stands."""
    cells = [_cell(spec, run) for spec in run.specs]
    finished = sum(cell.state != "waiting" for cell in cells)
    return RunAnswer(
        id=run.id, state=run.state, trouble=run.trouble, in_lab=run.in_lab, total=len(cells), finished=finished,
        left_s=round(run.left_s, 1), cells=cells,
    )  # fmt: skip


def _cell(spec: CellSpec, run: Run) -> CellAnswer:
    result, failure = run.found.get(spec.id), run.failures.get(spec.id)
    return CellAnswer(
        id=spec.id,
        lane=spec.lane.name,
        rtt_ns=spec.lane.rtt_ns,
        column=spec.column,
        duration_s=spec.duration_s,
        expected_bytes_per_s=spec.expected_bytes_per_s,
        state="done" if result else "failed" if failure else "waiting",
        rtt_measured_ns=result.rtt_ns if result else None,
        steady_bytes_per_s=result.steady_bytes_per_s if result else None,
        settled=result.settled if result else None,
        limiter=result.limiter if result else None,
        invalid=result.invalid if result else (),
        failure=failure,
    )
