"""A client's request to start a run, and the axes that it may name."""

from __future__ import annotations

from pydantic import Field

from emulator.config.field_types import Switch
from emulator.config.sweep_schema import SweepRequest
from emulator.model import sweep_axes
from emulator.model.sweep_axes import AXES, Axes, SweepAxis
from web.api.schemas import Answer

MOST_CELLS = 1000
DEFAULTS = {"tcp_profile": ("default",)}
"""The default of requests that name neither TCP profiles nor windows."""
OLD_WORDS = {
    **sweep_axes.OLD_WORDS, "rtts": "rtt", "lanes": "lane", "profiles": "tcp_profile", "congestion_controls": "cc",
}  # fmt: skip
"""The old names of axes in requests, which the API reads for one more release."""


class RunForm(SweepRequest):
    """A grid of cells: every combination of the axes, which are those of a topology file's sweep section."""

    in_lab: Switch = Field(default=False, description="run each cell in its own lab")

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
        default=axis.default_of_a_request,
        examples=list(axis.examples),
        choices=list(axis.choices),
        least=limits[0],
        most=limits[1],
        single=axis.single,
    )
