"""The name that a user gives a run: a short text for people. Its id stays what identifies it."""

from __future__ import annotations

LONGEST = 80


def parse(text: str) -> str:
    """A run's name without the spaces around it; empty for none. Raises ValueError."""
    name = text.strip()
    if len(name) > LONGEST:
        raise ValueError(f"a run's name has at most {LONGEST} characters; this one has {len(name)}")
    if not name.isprintable():
        raise ValueError(f"{name!r} is not a run's name: use characters that can be printed, on one line")
    return name


def titled(name: str, id: str) -> str:
    """The name with the id beside it; only the id where a run has no name."""
    return f"{name} ({id})" if name else id


def matches(search: str, name: str, id: str) -> bool:
    """Whether name or id contains every word of a search, in any case."""
    return all(word in f"{name} {id}".casefold() for word in search.casefold().split())
