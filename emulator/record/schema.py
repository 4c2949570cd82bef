"""The schema of a path profile's file: its keys and the form of each value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field, WithJsonSchema

from emulator.config.field_types import Count, Duration, Probability, Word, one_of, text_field
from emulator.config.path_profile_include import FORMAT, SETTINGS
from emulator.config.schema import Form, settings_form
from emulator.model.impairment_keys import named
from emulator.record.path_profile import ONE_CLOCK, ROUND_TRIPS, TWO_CLOCKS


def _number(text: str) -> float:
    if not re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?(e-?[0-9]{1,3})?", text):
        raise ValueError(f"{text!r} is not a number such as 0.25")
    return float(text)


def _format(text: str) -> int:
    if text != str(FORMAT):
        raise ValueError(f"format {text} is not known: this Longhaul reads format {FORMAT}")
    return FORMAT


SPLITS = (ONE_CLOCK, TWO_CLOCKS, ROUND_TRIPS)
Number = Annotated[float, text_field(_number, "a number"), WithJsonSchema({"type": "number"})]
Format = Annotated[int, text_field(_format, "a format"), WithJsonSchema({"type": "integer", "enum": [FORMAT]})]
Split = Annotated[str, text_field(one_of(*SPLITS), "a word"), WithJsonSchema({"type": "string", "enum": list(SPLITS)})]


class TimeForm(Form):
    """A time and its 99.9 % interval."""

    value: Duration
    low: Duration
    high: Duration


class ShareForm(Form):
    """A share and its 99.9 % interval."""

    value: Probability
    low: Probability
    high: Probability


class NumberForm(Form):
    """A number and its 99.9 % interval."""

    value: Number
    low: Number
    high: Number


class SourceForm(Form):
    """What was recorded, and how."""

    host: Word
    tool: Word = Field(description="ping or irtt")
    at: Word = Field(description="when the recording began, ISO 8601")
    every: Duration = Field(description="interval between two probes; it is the unit of losses in a row")
    ways: Split = Field(
        description="measured: one clock timed each direction; variation: each direction's changes were measured, and "
        "its least is half the round trip's; assumed: all variation is attributed to the outbound direction"
    )


class TripForm(Form):
    """The round trips."""

    least: Duration
    median: TimeForm
    p99: TimeForm


class FitForm(Form):
    """How well the loss model fits the gaps between losses."""

    chi_square: Number
    freedom: Count = Field(description="degrees of freedom")
    p_value: Number = Field(description="chance of a fit as bad as this if the model is right")


class FoundForm(Form):
    """What was counted in one direction."""

    delays: Count = Field(description="number of known delays")
    least: Duration
    median: TimeForm
    p99: TimeForm
    correlation: Number = Field(description="of each delay with the next one; only a trace replays it")
    variation: Duration = Field(description="mean difference of a delay and the next one")
    packets: Count
    lost: ShareForm
    burst: NumberForm | None = Field(default=None, description="packets lost in a row, on average")
    bursts: Count
    fit: FitForm | None = None


if TYPE_CHECKING:

    class _PathSettings(Form): ...

else:
    _PathSettings = settings_form("_PathSettings", Form, map(named, SETTINGS), required=("delay",))


class PathForm(_PathSettings):
    """One direction in the keys of a topology's lane, and the counts behind them."""

    trace: Word | None = Field(default=None, description="a CSV file in this folder, as a schedule's trace")
    found: FoundForm


class PathProfileForm(Form):
    """A recorded path, as impairments for both directions of a lane."""

    model_config = ConfigDict(title="Longhaul path profile")

    path_profile: Format = Field(description="version of the file's format")
    source: SourceForm
    rtt: TripForm
    outbound: PathForm
    inbound: PathForm


_FORMS: dict[str, type[Form]] = {
    "source": SourceForm, "rtt": TripForm, "outbound": PathForm, "inbound": PathForm, "found": FoundForm,
    "fit": FitForm, "lost": ShareForm, "burst": NumberForm, "median": TimeForm, "p99": TimeForm,
}  # fmt: skip


def form_at(path: tuple[str, ...]) -> type[Form]:
    """The form that reads this path of the file."""
    return _FORMS[path[-1]] if path else PathProfileForm
