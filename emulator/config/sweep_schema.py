"""The schemas of a sweep, made from the table of its axes: a topology file's `sweep` section, and a request's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from emulator.config.field_types import text_field
from emulator.config.program_schema import ProgramForm
from emulator.config.schema import Form
from emulator.model import sweep_axes
from emulator.model.sweep_axes import AXES, SweepAxis


def _many(axis: SweepAxis) -> BeforeValidator:
    """A field that is one value of an axis, several with commas between them, or a list of values."""

    def read(value: object) -> Any:
        values = sweep_axes.split(axis.key, value) if isinstance(value, str) else value
        values = values if isinstance(values, list) else [values]
        texts = [one for one in values if isinstance(one, str)]
        if not values or len(texts) < len(values):
            raise ValueError(f"this is neither a value nor a list of values: use {axis.expected}, or a list of them")
        return sweep_axes.parse_all(texts, partial(sweep_axes.parse, axis.key))

    return BeforeValidator(read)


def _annotation(axis: SweepAxis) -> Any:
    """The type of an axis' field, with its reader and its JSON Schema."""
    if axis.single:
        kind = {"type": "integer"} if axis.key == "repeats" else {"type": "string"}
        reader = text_field(partial(sweep_axes.parse, axis.key), axis.expected)
        return Annotated[int, reader, WithJsonSchema({**kind, "examples": list(axis.examples)})]
    schema = {"type": ["string", "array"], "items": {"type": "string"}, "examples": [list(axis.examples)]}
    return Annotated[tuple[Any, ...], _many(axis), WithJsonSchema(schema)]


def fields(default: Callable[[SweepAxis], str]) -> dict[str, Any]:
    """An optional field for every axis; `default` describes the value that applies without it."""
    return {axis.key: (_annotation(axis) | None, _field(axis, default(axis))) for axis in AXES}


def _field(axis: SweepAxis, default: str) -> Any:
    return Field(default=None, description=f"{axis.help.removesuffix('.')}; default: {default}")


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
