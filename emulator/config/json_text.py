"""Parses the JSON text of a request as strictly as a topology file: a key given twice is a mistake, as in YAML.

JSON readers usually keep the last of two equal keys, and two readers of one text need not agree on it. They also take
NaN and Infinity, which are not JSON.
"""

from __future__ import annotations

import json
import math
from typing import Any

from emulator.config.yaml_source import DEEPEST
from emulator.errors import InputError, Mistake


class _Pairs(list[tuple[str, Any]]):
    """An object as it is written."""


def read(data: bytes, where: str) -> Any:
    """The value of a JSON text in UTF-8. Raises InputError with every mistake in it, each with its path."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_Pairs, parse_constant=_refused, parse_float=_finite)
    except UnicodeDecodeError:
        raise InputError.single("not JSON: it is not a text in UTF-8", where) from None
    except RecursionError:
        raise InputError.single("not understood: nested far too deep", where) from None
    except ValueError as error:
        raise InputError.single(f"not JSON: {error}", where) from None
    mistakes: list[Mistake] = []
    plain = _plain(value, (), where, mistakes)
    if mistakes:
        raise InputError(mistakes)
    return plain


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    return number


def _plain(value: Any, path: tuple[str, ...], where: str, mistakes: list[Mistake]) -> Any:
    """The value with dicts for objects; keys given twice and what is nested too deep are noted."""
    if len(path) > DEEPEST:
        mistakes.append(Mistake(where, ".".join(path[:3]), "nested far too deep"))
        return None
    if isinstance(value, _Pairs):
        found: dict[str, Any] = {}
        for key, part in value:
            if key in found:
                mistakes.append(Mistake(where, ".".join((*path, key)), "given twice"))
            found[key] = _plain(part, (*path, key), where, mistakes)
        return found
    if isinstance(value, list):
        return [_plain(part, (*path, str(place)), where, mistakes) for place, part in enumerate(value)]
    return value
