"""Fragments of a kernel's configuration: read, merged, and compared with what a kernel kept. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from emulator.lab.kernel_version import KernelVersion
from emulator.model.impairment import AQM_SINCE

GONE = {"CONFIG_UML_NET": (6, 16)}
"""Lines of kernel.config that a kernel has no more, from this version on."""
NEW = {f"CONFIG_NET_SCH_{name.upper()}": since for name, since in AQM_SINCE.items()}
"""Lines of kernel.config that a kernel has only from this version on."""

_SET = re.compile(r"(CONFIG_[A-Za-z0-9_]+)=(\S.*)")
_UNSET = re.compile(r"# (CONFIG_[A-Za-z0-9_]+) is not set")
_CONGESTION = re.compile(r"(?m)^CONFIG_TCP_CONG_(?!ADVANCED)(\w+)=y$")
_CALLED = {"hstcp": "highspeed"}


def parse(text: str) -> dict[str, str]:
    """The line of each symbol, "CONFIG_X=y" or "# CONFIG_X is not set". Raises ValueError with the line's number."""
    found = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if match := _SET.fullmatch(line):
            if match[2] == "m":
                raise ValueError(f"line {number}: {line}: the lab loads no modules, use =y")
            found[match[1]] = _unset(match[1]) if match[2] == "n" else line
        elif match := _UNSET.fullmatch(line):
            found[match[1]] = line
        elif line and not line.startswith("#"):
            raise ValueError(f"line {number}: {line!r} is neither CONFIG_NAME=value nor '# CONFIG_NAME is not set'")
    return found


def _unset(symbol: str) -> str:
    return f"# {symbol} is not set"


def merged(fragments: Sequence[str], version: KernelVersion) -> str:
    """One fragment of several, of which the last one that names a symbol decides, for a kernel of this version.

    Lines of the first fragment that this version does not have are left out (`GONE`, `NEW`). Where a later fragment
    asks for one, it stays, and the kernel refuses it by name.
    """
    foreign = {symbol for symbol, since in GONE.items() if version.pair >= since}
    foreign |= {symbol for symbol, since in NEW.items() if version.pair < since}
    lines: dict[str, str] = {}
    for fragment in fragments:
        left_out = foreign if fragment is fragments[0] else ()
        lines |= {symbol: line for symbol, line in parse(fragment).items() if symbol not in left_out}
    return "".join(f"{line}\n" for line in lines.values())


def lost(asked: str, got: str) -> list[str]:
    """The lines of a fragment that a kernel's .config did not keep."""
    wanted, kept = parse(asked), set(got.splitlines())
    # A symbol that does not exist is not set either.
    return [
        line
        for symbol, line in wanted.items()
        if line not in kept and not (line == _unset(symbol) and f"{symbol}=" not in got)
    ]


def congestion_controls(config: str) -> tuple[str, ...]:
    """The congestion controls that a configuration builds in, by their names; every kernel has reno."""
    names = [found.lower() for found in _CONGESTION.findall(config)]
    return tuple(sorted({"reno", *(_CALLED.get(name, name) for name in names)}))
