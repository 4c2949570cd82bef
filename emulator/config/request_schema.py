"""The schema of a sweep's requests (`sweep: workload: requests:`), made from the table of their axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import create_model

from emulator.config.axis_fields import fields
from emulator.config.schema import Form
from emulator.model.sweep_axes import REQUEST_AXES

if TYPE_CHECKING:

    class RequestsForm(Form):
        """Requests and answers instead of streams: every key one value or a list, measured in all combinations."""

else:
    RequestsForm = create_model(
        "RequestsForm",
        __base__=Form,
        __doc__="Requests and answers instead of streams: every key one value or a list, measured in all combinations.",
        __module__=__name__,
        **fields(lambda axis: axis.default, REQUEST_AXES),
    )
