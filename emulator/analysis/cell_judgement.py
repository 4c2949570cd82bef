"""What every kind of judgement of a cell says. Pure."""

from __future__ import annotations

from msgspec import Struct


class CellJudgement(Struct, frozen=True, kw_only=True):
    """What limited a cell: `kind` is one of its workload's kinds, `limiter` says it as a short text, `evidence` as a
    sentence; `advice` is what helps, if anything does.

    `invalid` are the reasons why the figures cannot be true, empty for a valid cell; `findings` are those of all
    checks.
    """

    kind: str
    limiter: str
    evidence: str
    advice: str
    invalid: tuple[str, ...]
    findings: tuple[str, ...]
