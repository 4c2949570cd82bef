"""What a client sends to start a run, and how runs are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from emulator.config.sweep_schema import SweepForm
from emulator.model import sweep_axes
from emulator.model.sweep_axes import AXES, Axes, SweepAxis
from web.api.schemas import Answer

if TYPE_CHECKING:
    from emulator.experiment.cell_result import CellSpec
    from web.runs import Run

MOST_CELLS = 1000
DEFAULTS = {"tcp_profile": ("default",)}
"""What a request measures that names neither TCP profiles nor windows."""
OLD_WORDS = {
    **sweep_axes.OLD_WORDS, "rtts": "rtt", "lanes": "lane", "profiles": "tcp_profile", "congestion_controls": "cc",
}  # fmt: skip
"""What a request may still call an axis, for one release."""


def _flag(value: Any) -> Any:
    if value not in ("true", "false"):
        raise ValueError("true or false was expected")
    return value == "true"


Flag = Annotated[bool, BeforeValidator(_flag)]


class RunForm(SweepForm):
    """A grid of cells: every combination of the axes, which are those of a topology file's sweep section."""

    in_lab: Flag = Field(default=False, description="each cell in a lab of its own")

    def axes(self) -> Axes:
        """The axes; without TCP profiles and windows, the default profile. Raises ValueError."""
        given = self.model_dump(exclude={"in_lab", "repeats"}, exclude_none=True)
        return Axes(**({} if given.get("window") else DEFAULTS) | given)

    @property
    def most_repeats(self) -> int:
        """Measurements of a cell at most; fewer when its mean is known to 2.5 % after three."""
        repeats: int | None = getattr(self, "repeats")  # noqa: B009  # the table's fields are not typed
        return repeats or 1


class AxisAnswer(Answer):
    """One axis: its key in requests and files, its option, and what it takes. Limits are null where it has none."""

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
    """All axes, in the order of the form."""

    axes: list[AxisAnswer]


def axes_answer() -> AxesAnswer:
    """The table of axes."""
    return AxesAnswer(axes=[_axis(axis) for axis in AXES])


def _axis(axis: SweepAxis) -> AxisAnswer:
    limits = [axis.limits[2](value) for value in axis.limits[:2]] if axis.limits else [None, None]
    return AxisAnswer(
        key=axis.key,
        option=axis.option,
        label=axis.label,
        help=axis.help,
        default=axis.default,
        examples=list(axis.examples),
        choices=list(axis.choices),
        least=limits[0],
        most=limits[1],
        single=axis.single,
    )


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
    """A run: running, done or stopped; `left_s` is a guess, `warnings` what to change in the request."""

    id: str
    state: str
    trouble: str
    in_lab: bool
    total: int
    finished: int
    left_s: float
    cells: list[CellAnswer]
    warnings: list[str] = Field(default_factory=list)


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
        rtt_measured_ns=result.delays.rtt_ns if result else None,
        steady_bytes_per_s=result.steady_bytes_per_s if result else None,
        settled=result.throughput.settled if result else None,
        limiter=result.judgement.limiter if result else None,
        invalid=result.judgement.invalid if result else (),
        failure=failure,
    )
