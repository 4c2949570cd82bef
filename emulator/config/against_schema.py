"""The fields of a sweep's groups of flows (`sweep: workload: against:` and `pairs:`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from emulator.model import flow_group
from emulator.model.flow_group import EXAMPLE, Contest


def _texts(value: object, expected: str) -> list[str]:
    """One text, or a list of texts."""
    values = value if isinstance(value, list) else [value]
    if not any(values):
        raise ValueError(f"is empty: use {expected}")
    texts = [text for text in values if isinstance(text, str)]
    if not texts or len(texts) < len(values):
        raise ValueError(f"this is neither a text nor a list of texts: use {expected}")
    return texts


def _contests(value: object) -> tuple[Contest, ...]:
    return tuple(map(Contest.parse, _texts(value, EXAMPLE)))


def _controls(value: object) -> tuple[str, ...]:
    texts = value.split(",") if isinstance(value, str) else value
    names = tuple(text.strip() for text in _texts(texts, "[cubic, bbr, reno]"))
    flow_group.pairs(names)
    return names


Contests = Annotated[
    tuple[Contest, ...],
    BeforeValidator(_contests),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}, "examples": [EXAMPLE]}),
]
"""Each text is one contest: the groups that share the lane."""
Controls = Annotated[
    tuple[str, ...],
    BeforeValidator(_controls),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}, "examples": [["cubic", "bbr"]]}),
]
"""Congestion controls, of which every pair is a contest."""
