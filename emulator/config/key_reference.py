"""The table of impairments as JSON for the web form, and as Markdown for the documentation."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from emulator.config.schema import MatchForm
from emulator.model.access_networks import ACCESS_NETWORKS
from emulator.model.impairment_keys import KEYS, Key
from emulator.units import format_duration, format_rate

ACCESS_COLUMNS: tuple[str, ...] = (
    "name", "network", "adds to the RTT", "rate to the site", "rate from it", "jitter", "where the figures are from",
)  # fmt: skip
COLUMNS = ("key", "values", "meaning", "without effect", "where")


def rows() -> list[dict[str, Any]]:
    """Every key with the data that a form needs; `at_rest` None: only omitting the key means no effect."""
    return [_row(key) for key in KEYS]


def _row(key: Key) -> dict[str, Any]:
    plain = ("name", "kind", "label", "help", "needs_rate", "schedulable", "everyday", "one_way")
    return {name: getattr(key, name) for name in plain} | {
        "value_schema": key.schema,
        "at_rest": key.at_rest,
        "choices": [{"word": one.word, "label": one.label} for one in key.choices],
        "range": asdict(key.range) if key.range else None,
        "extra_units": dict(key.extra_units),
    }


def match_rows() -> list[dict[str, Any]]:
    """Every key of a flow's match, with examples of its values as texts."""
    fields = MatchForm.model_fields.items()
    return [
        {"name": name, "help": one.description, "examples": [str(value) for value in one.examples or ()]}
        for name, one in fields
    ]


def access_markdown() -> str:
    """The access networks as a table in Markdown."""
    rows = [ACCESS_COLUMNS, ("---",) * len(ACCESS_COLUMNS)]
    for one in ACCESS_NETWORKS:
        times, rates = (one.rtt_ns, one.jitter_ns), (one.down_bps, one.up_bps)
        (rtt, jitter), (down, up) = map(format_duration, times), map(format_rate, rates)
        rows.append((f"`{one.name}`", one.label, rtt, down, up, jitter, one.source))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def markdown() -> str:
    """The keys as a table in Markdown, one row each, in the table's order."""
    lines = [" | ".join(COLUMNS), " | ".join("---" for _ in COLUMNS), *(" | ".join(_cells(key)) for key in KEYS)]
    return "".join(f"| {line} |\n" for line in lines)


def _cells(key: Key) -> list[str]:
    shown = [one.word for one in key.choices] or key.examples
    value = " ".join(f"`{text}`" for text in shown) + (" or a table" if key.table else "")
    where = ["one direction alone" if key.one_way else "lane, direction, flow, defaults"]
    where += ["needs `rate`"] * key.needs_rate + ["schedule"] * key.schedulable
    rest = "left out" if key.at_rest is None else f"`{key.at_rest}`"
    return [f"`{key.name}`", value, key.help.replace("|", "\\|"), rest, "; ".join(where)]
