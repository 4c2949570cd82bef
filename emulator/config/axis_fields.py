"""Fields of a schema from the table of a sweep's axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from emulator import units
from emulator.config.field_types import text_field
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
        kind = {"type": "integer"} if axis.read is units.parse_count else {"type": "string"}
        reader = text_field(partial(sweep_axes.parse, axis.key), axis.expected)
        return Annotated[int, reader, WithJsonSchema({**kind, "examples": list(axis.examples)})]
    schema = {"type": ["string", "array"], "items": {"type": "string"}, "examples": [list(axis.examples)]}
    return Annotated[tuple[Any, ...], _many(axis), WithJsonSchema(schema)]


def fields(default: Callable[[SweepAxis], str], axes: Sequence[SweepAxis] = AXES) -> dict[str, Any]:
    """An optional field for every axis; `default` describes the value that applies without it."""
    return {axis.key: (_annotation(axis) | None, _field(axis, default(axis))) for axis in axes}


def _field(axis: SweepAxis, default: str) -> Any:
    return Field(default=None, description=f"{axis.help.removesuffix('.')}; default: {default}")
