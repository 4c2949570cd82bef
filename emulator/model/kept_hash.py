"""A base of frozen dataclasses that compute their hash once.

Caches are keyed by lanes and their directions, and a change of one lane asks them for hundreds of others.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class KeptHash:
    """Instances keep their hash, but neither as a field nor when they are copied or pickled: the hashes of texts differ
    between processes."""

    __slots__ = ("_hash",)

    _hash: int

    def __init_subclass__(cls) -> None:
        # A dataclass leaves a hash alone that its class defines itself.
        cls.__hash__ = KeptHash.__hash__  # type: ignore[method-assign]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash(tuple(getattr(self, field.name) for field in fields(self)))  # type: ignore[arg-type]
            object.__setattr__(self, "_hash", found)
            return found

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)
