"""The table of impairments: how users write each one, and which fields of `Impairment` it sets. Pure.

Each key has one row. The fields of files and requests, the commands' options, the status, the schedules' keys, the
reference page and the web panel are made from it. A new impairment needs a row here and a field with its checks in
`impairment`; its lowering, its codec, its engine part and its measurement are written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from emulator import units
from emulator.model import jitter_distribution, loss_model
from emulator.model.impairment import AQMS, Buffer, Impairment


class Kind(Struct, frozen=True):
    """A kind of value: its name in messages ("use a time"), and in a command's help."""

    expected: str
    metavar: str


TABLE = [-8192, 0, 16384]
"""A table of numbers, as the schema shows it."""

KINDS = {
    "time": Kind("a time", "TIME"),
    "rate": Kind("a rate", "RATE"),
    "size": Kind("a size", "SIZE"),
    "octets": Kind("a size", "SIZE"),
    "share": Kind("a probability", "PROBABILITY"),
    "loss": Kind("a loss", "LOSS"),
    "count": Kind("a whole number", "N"),
    "choice": Kind("a word", "WORD"),
}


class Choice(Struct, frozen=True):
    """A word that a key may have, the field's value for it, and its label in the panel."""

    word: str
    meaning: Any
    label: str


class Range(Struct, frozen=True):
    """The range of the panel's slider, in the kind's base unit (ns, bit/s, bytes, %); `log`: on a logarithmic scale."""

    low: float
    high: float
    log: bool = True


class Key(Struct, frozen=True, eq=False):
    """One impairment.

    `parse` reads the user's text and raises ValueError; it returns the value of the one field, or a tuple of the
    values of all `fields`, in their order. `format` is its inverse for all values, including those without effect; it
    takes the fields' values as arguments. `choices` replace both; the first one has no effect. `table` reads the text
    of a file of numbers, whose name may replace a word. `needs_rate`: the key is a setting of the bottleneck.
    `schedulable`: a schedule may change it. `everyday`: the panel always shows it. `one_way`: it belongs to one
    direction, never to a lane as a whole. `extra_units` are units that cannot be converted to the kind's own, and the
    word before such a number, if any. `formerly` is the key's old name, which Longhaul still reads.
    """

    name: str
    fields: tuple[str, ...]
    kind: str
    label: str
    help: str
    parse: Callable[[str], Any] = str
    format: Callable[..., Any] = str
    examples: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    range: Range | None = None
    extra_units: Mapping[str, str] = field(default_factory=dict)
    table: Callable[[str], Any] | None = None
    needs_rate: bool = False
    schedulable: bool = False
    everyday: bool = False
    one_way: bool = False
    formerly: str = ""

    def read(self, text: str) -> dict[str, Any]:
        """The fields of Impairment that the user's text sets, by name. Raises ValueError."""
        value = self._chosen(text) if self.choices else self.parse(text)
        return self._by_field(value)

    def read_table(self, text: str) -> dict[str, Any]:
        """The fields that a file of numbers sets. Raises ValueError."""
        assert self.table
        return self._by_field(self.table(text))

    def write(self, values: Mapping[str, Any]) -> Any:
        """These values of the key's fields as in a file: a text, a number or a list; None for no effect, where only
        omitting the key says so."""
        said = [values[name] for name in self.fields]
        word = next((one.word for one in self.choices if [one.meaning] == said), None)
        return self.format(*said) if word is None else word

    def of(self, impairment: Impairment) -> dict[str, Any]:
        """The key's fields of an impairment."""
        return {name: getattr(impairment, name) for name in self.fields}

    @property
    def rest(self) -> dict[str, Any]:
        """The key's fields when it has no effect."""
        return {name: AT_REST[name] for name in self.fields}

    @property
    def at_rest(self) -> Any:
        """The key's value without effect, as in a file; None where only omitting the key says so."""
        return self.write(self.rest)

    @property
    def expected(self) -> str:
        """The kind of its value, for messages."""
        words = [one.word for one in self.choices]
        return (" or ".join(words) if len(words) == 2 else "a word") if words else KINDS[self.kind].expected

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its value."""
        words = [one.word for one in self.choices]
        if self.table:
            return {"anyOf": [{"type": "string", "examples": words}, {"type": "array", "examples": [TABLE]}]}
        if words:
            return {"type": "string", "enum": words}
        if self.kind == "count":
            return {"type": "integer", "examples": [int(one) for one in self.examples]}
        return {"type": "string", "examples": list(self.examples)}

    def _chosen(self, text: str) -> Any:
        for one in self.choices:
            if one.word == text:
                return one.meaning
        also = ", nor a file with a table" if self.table else ""
        raise ValueError(f"{text!r} is not one of {', '.join(one.word for one in self.choices)}{also}")

    def _by_field(self, value: Any) -> dict[str, Any]:
        values = (value,) if len(self.fields) == 1 else value
        return dict(zip(self.fields, values, strict=True))


AT_REST: dict[str, Any] = asdict(Impairment())
"""The fields of an impairment that does nothing."""


def _time(ns: int) -> str:
    return units.compact(units.format_duration(ns))


def parse_rate_bps(text: str) -> int | None:
    """A rate in bit/s; "none" is None. Raises ValueError."""
    if text == "none":
        return None
    if bps := units.parse_rate_bps(text):
        return bps
    raise ValueError(f"a rate of {text} lets no packet through: use none for no bottleneck, or a rate such as 10Gbit")


def _rate(bps: int | None) -> str:
    return units.compact(units.format_rate(bps)) if bps else "none"


def parse_buffer(text: str) -> Buffer | None:
    """A buffer of bytes, packets or time; "auto", one BDP, is None. Raises ValueError."""
    return None if text == "auto" else Buffer(**units.parse_buffer(text))


def _buffer(buffer: Buffer | None) -> str:
    if buffer is None:
        return "auto"
    parts = {"bytes": buffer.bytes, "packets": buffer.packets, "ns": buffer.ns}
    return units.compact(units.format_buffer({k: v for k, v in parts.items() if v is not None}))  # type: ignore[arg-type]


def parse_loss(text: str) -> tuple[int, loss_model.LossModel | None]:
    """Loss as a probability or as a model; the other one is 0 or None. Raises ValueError."""
    loss = loss_model.parse(text)
    return (loss, None) if isinstance(loss, int) else (0, loss)


def _loss(loss_p32: int, model: loss_model.LossModel | None) -> str:
    return str(model) if model else _share(loss_p32)


def _share(p32: int) -> str:
    return units.compact(units.format_probability(p32))


def parse_ber_e15(text: str) -> int:
    """A bit error rate such as "1e-9" in errors per 10^15 bits. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,16}(\.[0-9]{1,15})?(e-?[0-9]{1,2})?", text):
        raise ValueError(f"{text!r} is not a bit error rate: use a number such as 1e-9")
    errors = Fraction(text) * 10**15
    if errors.denominator != 1 or errors > 10**15:
        raise ValueError(f"{text!r} is not within 1e-15..1 in steps of 1e-15")
    return errors.numerator


def parse_corruption(text: str) -> tuple[int, int]:
    """Corruption, "0.1%" of the packets or "ber 1e-9": (per packet in p32, bit errors in 10^15). Raises ValueError."""
    if text.startswith("ber "):
        return 0, parse_ber_e15(text.removeprefix("ber ").strip())
    return units.parse_probability_p32(text), 0


def _corruption(p32: int, ber_e15: int) -> str:
    return f"ber {ber_e15}e-15" if ber_e15 else _share(p32)


def _shape(distribution: str | tuple[int, ...]) -> str | list[int]:
    return distribution if isinstance(distribution, str) else list(distribution)


def _size(size_bytes: int) -> str:
    return units.compact(units.format_size(size_bytes))


_PACKETS = Range(1e-4, 100)

KEYS: tuple[Key, ...] = (
    Key(
        "delay", ("delay_ns",), "time", "Delay", "one-way delay; without it half the RTT",
        units.parse_duration_ns, _time, ("16ms", "250us"),
        range=Range(0, 2e8, log=False), schedulable=True, everyday=True, one_way=True,
    ),
    Key(
        "jitter", ("jitter_ns",), "time", "Jitter",
        "spread of each direction's delay; packets keep their order unless order is free",
        units.parse_duration_ns, _time, ("5ms",),
        range=Range(0, 5e7, log=False), schedulable=True, everyday=True,
    ),
    Key(
        "distribution", ("distribution",), "choice", "Jitter shape",
        "distribution of the jitter: uniform (default), normal, pareto, paretonormal; in a file also a table",
        format=_shape, table=jitter_distribution.parse,
        choices=(
            Choice("uniform", "uniform", "uniform"), Choice("normal", "normal", "normal"),
            Choice("pareto", "pareto", "Pareto"), Choice("paretonormal", "paretonormal", "Pareto-normal"),
        ),
    ),
    Key(
        "order", ("keep_order",), "choice", "Order",
        "keep (default): no packet overtakes another, whatever the jitter; free: jitter may reorder",
        choices=(Choice("keep", True, "kept, whatever the jitter"), Choice("free", False, "free: jitter may reorder")),
    ),
    Key(
        "loss", ("loss_p32", "loss_model"), "loss", "Loss",
        "loss of packets in each direction: at random, in bursts (1% burst 5), or by a model (gilbert P R 1-H 1-K, "
        "4-state P13 P31 P32 P23 P14)",
        parse_loss, _loss, ("0.01%", "1% burst 5", "gilbert 1% 20% 80% 0.1%", "4-state 1% 20% 5% 50% 0.1%"),
        range=_PACKETS, schedulable=True, everyday=True,
    ),
    Key(
        "duplicate", ("duplicate_p32",), "share", "Duplicated", "probability that a packet comes twice",
        units.parse_probability_p32, _share, ("0.1%",), range=_PACKETS,
    ),
    Key(
        "corrupt", ("corrupt_p32", "ber_e15"), "share", "Corrupted",
        "one bit flipped: in a share of the packets, or by a bit error rate",
        parse_corruption, _corruption, ("0.1%", "ber 1e-9"), range=_PACKETS, extra_units={"bit errors": "ber"},
    ),
    Key(
        "reorder", ("reorder_p32",), "share", "Reordered", "probability that a packet overtakes all that are in flight",
        units.parse_probability_p32, _share, ("0.1%",), range=_PACKETS,
    ),
    Key(
        "ecn", ("ecn",), "choice", "ECN",
        "mark (ECN) the packets that loss or an active queue would drop, where the sender supports it",
        choices=(Choice("no", False, "off: packets are dropped"), Choice("yes", True, "on: marked where they can be")),
    ),
    Key(
        "rate", ("rate_bps",), "rate", "Rate", "rate of each direction's bottleneck; none: the speed of the ports",
        parse_rate_bps, _rate, ("10Gbit", "100Mbit", "none"), range=Range(1e6, 1e11), schedulable=True, everyday=True,
    ),
    Key(
        "buffer", ("buffer",), "size", "Buffer",
        "queue of the bottleneck in bytes, packets or time; auto (default): one BDP, at least 1 ms",
        parse_buffer, _buffer, ("8MiB", "100p", "5ms", "auto"),
        range=Range(2**13, 2**30), extra_units={"ms": "", "p": ""}, needs_rate=True, everyday=True,
    ),
    Key(
        "aqm", ("aqm",), "choice", "AQM",
        f"queue management of the buffer: drop-tail (default), {', '.join(AQMS[1:-1])} or {AQMS[-1]}",
        choices=(
            Choice("drop-tail", "drop-tail", "drop-tail"), Choice("codel", "codel", "CoDel"),
            Choice("fq-codel", "fq-codel", "FQ-CoDel"), Choice("red", "red", "RED"), Choice("pie", "pie", "PIE"),
            Choice("fq-pie", "fq-pie", "FQ-PIE"), Choice("cake", "cake", "CAKE"),
            Choice("fq", "fq", "FQ: flows in turn"), Choice("dualpi2", "dualpi2", "DualPI2: L4S (Linux 6.17)"),
        ),
        needs_rate=True, formerly="queue",
    ),
    Key(
        "overhead", ("overhead_bytes",), "octets", "Overhead",
        "bytes that the bottleneck adds to the size of every packet",
        units.parse_size_bytes, _size, ("22B",), range=Range(1, 255), needs_rate=True,
    ),
    Key(
        "cells", ("atm",), "choice", "Cells",
        "atm: the bottleneck sends cells of 53 bytes for 48 of a packet (DSL); none (default)",
        choices=(Choice("none", False, "none"), Choice("atm", True, "ATM: 53 bytes for 48")), needs_rate=True,
    ),
    Key(
        "seed", ("seed",), "count", "Seed", "seed of this direction; default: derived from the topology's seed",
        units.parse_count, lambda seed: seed, ("7",), one_way=True,
    ),
)  # fmt: skip


def shared_keys() -> tuple[Key, ...]:
    """The keys that a lane as a whole may have, for both directions at once."""
    return tuple(key for key in KEYS if not key.one_way)


def schedulable_keys() -> tuple[Key, ...]:
    """The keys that a schedule may change."""
    return tuple(key for key in KEYS if key.schedulable)


def named(name: str) -> Key:
    """The key of that name. Raises KeyError."""
    return next((key for key in KEYS if key.name == name), None) or _unknown(name)


def key_of(field_name: str) -> Key:
    """The key that sets a field of Impairment. Raises KeyError."""
    return next((key for key in KEYS if field_name in key.fields), None) or _unknown(field_name)


def _unknown(name: str) -> Key:
    raise KeyError(name)


def at_rest(keys: Iterable[Key]) -> dict[str, Any]:
    """The fields of these keys when none has an effect."""
    return {name: value for key in keys for name, value in key.rest.items()}


def written(impairment: Impairment, keys: Iterable[Key] = ()) -> dict[str, Any]:
    """An impairment as in a file, key by key, without settings that have no effect unless `keys` names them."""
    always = set(keys)
    return {key.name: key.write(key.of(impairment)) for key in KEYS if key in always or key.of(impairment) != key.rest}
