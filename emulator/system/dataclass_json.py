"""Converts frozen dataclasses to plain JSON values and back by their type hints. Pure.

It serves the product's own files, which must be read quickly: it needs no YAML and no schema library. `config.loader`
reads what a user writes and reports every mistake with its line.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Any, TypeVar, Union, cast

T = TypeVar("T")
ATOMS = (type(None), bool, int, float, str)
TEXTS = (IPv4Address, IPv4Network, IPv6Network)
"""Classes that are written as text; their constructors read that text back."""


def to_plain(value: object) -> Any:
    """The value as dicts, lists, numbers and strings. Raises TypeError for a class that has no such form."""
    if isinstance(value, ATOMS):
        return value
    if isinstance(value, TEXTS):
        return str(value)
    if is_dataclass(value):
        return {name: to_plain(getattr(value, name)) for name in _hints(cast(type, type(value)))}
    if isinstance(value, Mapping):
        return {key: to_plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [to_plain(inner) for inner in (sorted(value) if isinstance(value, frozenset) else value)]
    raise TypeError(f"{type(value).__name__} has no plain form")


def from_plain(kind: type[T], plain: Any) -> T:
    """The inverse of `to_plain`; a missing field takes its default. Raises ValueError for any other mismatch."""
    try:
        return cast(T, _read(kind, plain))
    except RecursionError:
        raise ValueError(f"not a {kind.__name__}: it is nested too deep") from None
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error


def read(kind: Any, plain: Any) -> Any:
    """A value of any type with type hints: as `from_plain`, for unions and tuples too. Raises ValueError, TypeError."""
    return _read(kind, plain)


def _read(kind: Any, plain: Any) -> Any:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_union(inner, plain)
    if origin in (tuple, list, frozenset, Sequence):
        _expect(isinstance(plain, list), kind, plain)
        return _read_sequence(origin, inner, plain)
    if origin in (dict, Mapping):
        _expect(isinstance(plain, dict), kind, plain)
        return {key: _read(inner[1], value) for key, value in plain.items()}
    if is_dataclass(kind):
        _expect(isinstance(plain, dict), kind, plain)
        hints = _hints(cast(type, kind))
        if unknown := plain.keys() - hints.keys():
            raise ValueError(f"{getattr(kind, '__name__', kind)} has no {', '.join(sorted(unknown))}")
        return cast(Any, kind)(**{name: _read(hints[name], value) for name, value in plain.items()})
    if kind in TEXTS:
        _expect(isinstance(plain, str), kind, plain)
        return kind(plain)
    if origin is typing.Literal:
        _expect(plain in inner, kind, plain)
        return plain
    _expect(type(plain) is kind or (kind is float and type(plain) is int), kind, plain)
    return plain


def _read_union(choices: tuple[Any, ...], plain: Any) -> Any:
    problems = []
    for choice in choices:
        try:
            return _read(choice, plain)
        except (ValueError, TypeError) as error:
            problems.append(str(error))
    raise ValueError("; ".join(problems))


def _read_sequence(origin: Any, inner: tuple[Any, ...], plain: list[Any]) -> Any:
    each = inner[:1] * len(plain) if origin is not tuple or inner[-1] is Ellipsis else inner
    _expect(len(each) == len(plain), origin, plain)
    values = [_read(kind, value) for kind, value in zip(each, plain, strict=True)]
    return values if origin is list else frozenset(values) if origin is frozenset else tuple(values)


def _expect(right: bool, kind: Any, plain: Any) -> None:
    if not right:
        raise ValueError(f"{plain!r} is not a {getattr(kind, '__name__', kind)}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The fields of a dataclass and their types."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
