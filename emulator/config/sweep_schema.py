"""The schemas of a sweep, made from the table of its axes: a topology file's `sweep` section, and a request's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, create_model

from emulator.config.axis_fields import fields
from emulator.config.program_schema import ProgramForm
from emulator.config.schema import Form


class _SweepBase(Form):
    """What a sweep has besides its axes."""

    workload: ProgramForm | None = Field(
        default=None, description="the program that every cell runs; default: streams of TCP"
    )


if TYPE_CHECKING:

    class SweepForm(_SweepBase):
        """A sweep over the topology: every key one value or a list, measured in all combinations."""

    class SweepRequest(SweepForm):
        """The same axes in a request, with a request's defaults."""

else:
    SweepForm = create_model(
        "SweepForm",
        __base__=_SweepBase,
        __doc__="A sweep over the topology: every key one value or a list, measured in all combinations.",
        __module__=__name__,
        **fields(lambda axis: axis.default),
    )
    SweepRequest = create_model(
        "SweepRequest",
        __base__=SweepForm,
        __doc__="The same axes in a request, with a request's defaults.",
        __module__=__name__,
        **fields(lambda axis: axis.default_of_a_request),
    )
