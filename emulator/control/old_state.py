"""Files of the state folder that an earlier version wrote, in the fields of today's model. Pure."""

from __future__ import annotations

from typing import Any


def renewed(plain: Any) -> Any:
    """A tree of JSON values as `to_plain` writes it today; a tree of today's stays the same.

    An impairment's `queue` is now its `aqm`. A keyframe sets an impairment's fields: a `loss` becomes `loss_p32` and
    `loss_model`, and no rate is null, not 0.
    """
    if isinstance(plain, list):
        return [renewed(one) for one in plain]
    if not isinstance(plain, dict):
        return plain
    found = {"aqm" if key == "queue" and "delay_ns" in plain else key: renewed(one) for key, one in plain.items()}
    if found.keys() == {"at_ns", "values", "ramp"}:
        found["values"] = [pair for name, value in found["values"] for pair in _fields(name, value)]
    return found


def _fields(name: str, value: Any) -> list[list[Any]]:
    if name == "loss":
        plain = isinstance(value, int)
        return [["loss_p32", value if plain else 0], ["loss_model", None if plain else value]]
    return [[name, None if name == "rate_bps" and value == 0 else value]]
