"""Converts structs to plain JSON values and back by their type hints. Pure.

It serves the product's own files, which must be read quickly: it needs no YAML and no schema library. `config.loader`
reads what a user writes and reports every mistake with its line.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Any, TypeVar, Union, cast

from msgspec import Struct

T = TypeVar("T")
Reader = Callable[[Any], Any]
ATOMS = (type(None), bool, int, float, str)
TEXTS = (IPv4Address, IPv4Network, IPv6Network)
"""Classes that are written as text; their constructors read that text back."""


def to_plain(value: object) -> Any:
    """The value as dicts, lists, numbers and strings. Raises TypeError for a class that has no such form."""
    return _writer(cast(type, type(value)))(value)


@cache
def _writer(kind: type) -> Callable[[Any], Any]:
    """A function that writes values of this class; a class is analysed once, not for every value."""
    if issubclass(kind, ATOMS):
        return lambda value: value
    if issubclass(kind, TEXTS):
        return str
    if issubclass(kind, Struct):
        names = kind.__struct_fields__
        return lambda value: {name: to_plain(getattr(value, name)) for name in names}
    if issubclass(kind, Mapping):
        return lambda value: {key: to_plain(inner) for key, inner in value.items()}
    if issubclass(kind, frozenset):
        return lambda value: [to_plain(inner) for inner in sorted(value)]
    if issubclass(kind, tuple | list):
        return lambda value: [to_plain(inner) for inner in value]
    raise TypeError(f"{kind.__name__} has no plain form")


def to_json(value: object) -> str:
    """`to_plain` as JSON. Of equal structs in sequences, such as a hundred lanes before and after a change of one,
    each is converted once."""
    if isinstance(value, Struct):
        inner = (f'"{name}": {to_json(getattr(value, name))}' for name in value.__struct_fields__)
        return "{" + ", ".join(inner) + "}"
    if isinstance(value, tuple) and all(map(_is_struct, set(map(type, value)))):
        return "[" + ", ".join(map(_item_json, value)) + "]"
    return json.dumps(to_plain(value))


@lru_cache(maxsize=4096, typed=True)
def _item_json(value: object) -> str:
    return json.dumps(to_plain(value))


def from_plain(kind: type[T], plain: Any) -> T:
    """The inverse of `to_plain`; a missing field takes its default. Raises ValueError for any other mismatch."""
    try:
        return cast(T, _reader(kind)(plain))
    except RecursionError:
        raise ValueError(f"not a {kind.__name__}: it is nested too deep") from None
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error


def read(kind: Any, plain: Any) -> Any:
    """A value of any type with type hints: as `from_plain`, for unions and tuples too. Raises ValueError, TypeError."""
    return _reader(kind)(plain)


def _reader(kind: Any) -> Reader:
    """A function that reads values of this type; the type is analysed once, not for every value."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return partial(_read_union, [_reader(choice) for choice in inner], types.NoneType in inner)
    if origin in (tuple, list, frozenset, Sequence):
        return partial(_read_sequence, kind, origin, [_reader(one) for one in inner if one is not Ellipsis])
    if origin in (dict, Mapping):
        return partial(_read_mapping, kind, _reader(inner[1]))
    if _is_struct(kind):
        return partial(_read_struct, kind)
    if kind in TEXTS:
        return partial(_read_text, kind)
    if origin is typing.Literal:
        return partial(_read_literal, kind, inner)
    return partial(_read_atom, kind)


def _read_union(choices: list[Reader], optional: bool, plain: Any) -> Any:
    if optional and plain is None:
        return None
    problems = []
    for choice in choices:
        try:
            return choice(plain)
        except (ValueError, TypeError) as error:
            problems.append(str(error))
    raise ValueError("; ".join(problems))


def _read_sequence(kind: Any, origin: Any, readers: list[Reader], plain: Any) -> Any:
    if not isinstance(plain, list):
        raise _mismatch(kind, plain)
    each = readers[:1] * len(plain) if origin is not tuple or typing.get_args(kind)[-1] is Ellipsis else readers
    if len(each) != len(plain):
        raise _mismatch(origin, plain)
    values = [read_one(value) for read_one, value in zip(each, plain, strict=True)]
    return values if origin is list else frozenset(values) if origin is frozenset else tuple(values)


def _read_mapping(kind: Any, read_one: Reader, plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise _mismatch(kind, plain)
    return {key: read_one(value) for key, value in plain.items()}


def _read_struct(kind: Any, plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise _mismatch(kind, plain)
    readers = _readers(kind)
    if unknown := plain.keys() - readers.keys():
        raise ValueError(f"{getattr(kind, '__name__', kind)} has no {', '.join(sorted(unknown))}")
    return kind(**{name: readers[name](value) for name, value in plain.items()})


def _read_text(kind: Any, plain: Any) -> Any:
    if not isinstance(plain, str):
        raise _mismatch(kind, plain)
    return kind(plain)


def _read_literal(kind: Any, choices: tuple[Any, ...], plain: Any) -> Any:
    if plain not in choices:
        raise _mismatch(kind, plain)
    return plain


def _read_atom(kind: Any, plain: Any) -> Any:
    if type(plain) is not kind and not (kind is float and type(plain) is int):
        raise _mismatch(kind, plain)
    return plain


def _mismatch(kind: Any, plain: Any) -> ValueError:
    return ValueError(f"{plain!r} is not a {getattr(kind, '__name__', kind)}")


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


@cache
def _readers(kind: type[Struct]) -> dict[str, Reader]:
    """The readers of a struct's fields, made at the first use, so that a class may hold itself."""
    return {name: _reader(hint) for name, hint in _hints(kind).items()}


@cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    """The fields of a struct and their types."""
    hints = typing.get_type_hints(kind)
    return {name: hints[name] for name in kind.__struct_fields__}
