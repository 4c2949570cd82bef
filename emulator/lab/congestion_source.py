"""A congestion control in one C file: its name, what it lacks before any compiler runs, its place in the kernel. Pure.

The kernel checks at its start what `MUST` names (tcp_register_congestion_control); one that lacks it is not there, and
a sweep would say so only minutes later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from emulator.model.sweep_axes import ALGORITHM_PATTERN

FOLDER = "net/ipv4"
PREFIX = "lab_cc_"
"""Of the file in the kernel's source: no file of Linux is called so."""
MUST = ("ssthresh", "undo_cwnd")
ONE_OF = ("cong_avoid", "cong_control")
OF_LINUX = (
    "bbr", "bic", "cdg", "cubic", "dctcp", "dctcp-reno", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "reno",
    "scalable", "vegas", "veno", "westwood", "yeah",
)  # fmt: skip
"""The names of Linux's own: a table that has one of them twice would leave open which of the two was measured."""

_STRUCT = re.compile(r"\bstruct\s+tcp_congestion_ops\s+(\w+)\b[^;={]*=\s*\{")
_NAME = re.compile(r"\.\s*name\s*=\s*\"([^\"]*)\"")
_REGISTER = re.compile(r"\btcp_register_congestion_control\s*\(\s*&\s*(\w+)\s*\)")
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')", re.DOTALL)


class CongestionSource(Struct, frozen=True):
    """A congestion control's name, and its C source. `file` is its path for people."""

    name: str
    source: str
    file: str

    @property
    def path(self) -> str:
        """Where it lies in the kernel's source."""
        return f"{FOLDER}/{PREFIX}{self.name.replace('-', '_')}.c"

    @property
    def make_line(self) -> str:
        """What builds it into the kernel, in the Makefile beside it."""
        return f"obj-y += {self.path.rpartition('/')[2].removesuffix('.c')}.o\n"


def parse(source: str, file: str, taken: Sequence[str] = ()) -> CongestionSource:
    """Check a C file. `taken` are the names of other congestion controls. Raises ValueError that says what to write."""
    code = without_comments(source)
    found = list(_STRUCT.finditer(code))
    if len(found) != 1:
        number = f"{len(found)} of them" if found else "none"
        raise ValueError(f"it must define one struct tcp_congestion_ops with its values, and has {number}")
    body, struct = _braces(code, found[0].end() - 1), found[0][1]
    named = _NAME.findall(body)
    if not named:
        raise ValueError(f'struct tcp_congestion_ops {struct} has no name: add .name = "mine",')
    name = named[-1]
    if not re.fullmatch(ALGORITHM_PATTERN, name):
        raise ValueError(f"{name!r} is no name of a congestion control: use 1 to 15 of a-z, 0-9, _ and -")
    if name in taken:
        raise ValueError(
            f'the kernel has a congestion control {name!r} already: give .name another text, as "my{name}"'
        )
    fields = set(re.findall(r"\.\s*(\w+)\s*=", body))
    if lacking := [f".{field}" for field in MUST if field not in fields]:
        raise ValueError(f"{struct} lacks {' and '.join(lacking)}, without which the kernel refuses it")
    if not fields.intersection(ONE_OF):
        raise ValueError(f"{struct} lacks .cong_avoid (or .cong_control), without which the kernel refuses it")
    if struct not in _REGISTER.findall(code):
        raise ValueError(f"nothing registers it: call tcp_register_congestion_control(&{struct}) in a module_init")
    return CongestionSource(name, source, file)


def without_comments(source: str) -> str:
    """C source with a blank for each comment; what stands in quotes stays."""
    return _NOT_CODE.sub(lambda match: match[1] or " ", source)


def _braces(code: str, start: int) -> str:
    """The text from a brace to the one that closes it, or to the end."""
    depth = 0
    for at in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if not depth:
            return code[start : at + 1]
    return code[start:]


def makefile(text: str, sources: Sequence[CongestionSource]) -> str:
    """The Makefile of FOLDER, with these files."""
    return text + ("\n" if text and not text.endswith("\n") else "") + "".join(one.make_line for one in sources)
