"""Which keys of the table of impairments the lowering leaves out."""

from __future__ import annotations

from msgspec.structs import asdict

from emulator.model.impairment import Impairment
from emulator.model.impairment_keys import KEYS, Key
from emulator.model.topology import Lane
from emulator.plan.netem_lowering import lower

BASE = Impairment(delay_ns=20_000_000, jitter_ns=1_000_000, loss_p32=1000, rate_bps=10**9)
"""What some keys need beside them: a delay, jitter, loss and a rate."""


def ignored() -> list[str]:
    """The names of the keys that may be set to something without any other integer for the kernel."""
    return [key.name for key in KEYS if any(_lowered(key, text) == _lowered(key, None) for text in texts(key))]


def texts(key: Key) -> list[str]:
    """Values that are not at rest: every word, or the example."""
    words = [one.word for one in key.choices]
    return words[1:] or [text for text in key.examples if key.read(text) != key.rest]


def _lowered(key: Key, text: str | None) -> object:
    fields = asdict(BASE) | (key.rest if text is None else key.read(text))
    # Without a delay there is no jitter.
    impairment = Impairment(**fields | {"jitter_ns": min(fields["jitter_ns"], fields["delay_ns"])})
    return lower(Lane("a", impairment, impairment), seed=1, has_seed=True).both
