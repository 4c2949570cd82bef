"""Which programs a line for /bin/sh starts, as far as that is plain: of a list of commands, each one's first word.

This is no parser of the shell: what it does not know ends the search. It rather passes a program over than name one
that is not needed. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|\$\(\(?[^()'"`\\]*\)\)?""", re.DOTALL)
_UNREADABLE = re.compile(r"[`'\"\\#]|<<")
_FIRST_HELD = 0xE000
"""Private characters stand for what is quoted, so that nothing in it looks like an operator."""
_LITERAL = re.compile(r"'([^']*)'|\"([^\"$`\\]*)\"")
SHELLS = ("sh", "dash", "bash", "/bin/sh", "/bin/dash", "/bin/bash")
_OPERATORS = ("|", "&&", "||", ";", "&")
_REDIRECTIONS = ("<", ">", ">>", ">&", "<&", "<>", ">|")
_COMPOUND = frozenset({
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "{", "}", "{{", "}}",
    "!", "[[", "function", "select", "time", "coproc",
})  # fmt: skip
_REDEFINE = frozenset({".", "source", "alias", "eval", "hash"})
"""After these a word may mean something else."""
_GUARDS = frozenset({"command", "type", "which", "test", "["})
"""What stands behind one of these and && may run only where the program is."""


def programs(command: str) -> tuple[str, ...]:
    """The first words of the simple commands, in their order, each once; words of the shell are among them."""
    return tuple(dict.fromkeys(_programs(command)))


def _programs(command: str) -> Iterator[str]:
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return chr(_FIRST_HELD + len(held) - 1)

    plain = _QUOTED.sub(hold, command.replace("\\\n", " "))
    if _UNREADABLE.search(plain):
        return
    for and_list in _and_lists(plain):
        for simple in and_list:
            words = [word for word in simple if word != "exec"]
            while words and _ASSIGNMENT.match(words[0]):
                words = words[1:]
            if not words or words[0] in _GUARDS:
                break
            if words[0] in SHELLS and words[1:2] == ["-c"]:
                yield words[0]
                yield from _programs(_literal(words[2:], held))
            elif _PLAIN.fullmatch(words[0]):
                yield words[0]


def _literal(words: list[str], held: list[str]) -> str:
    """The text of a single quoted word that the shell takes as it stands; "" for anything else."""
    if len(words) != 1 or len(words[0]) != 1 or not 0 <= ord(words[0]) - _FIRST_HELD < len(held):
        return ""
    found = _LITERAL.fullmatch(held[ord(words[0]) - _FIRST_HELD])
    return (found[1] or found[2] or "") if found else ""


def _and_lists(plain: str) -> Iterator[list[list[str]]]:
    """The simple commands between `;`, `&` and line breaks, up to the first thing that is no list of them.

    One with `||` is passed over: what stands there may be there for the lack of something.
    """
    simple: list[str] = []
    found, either = [simple], False
    for word in [*_words(plain), ";"]:
        if word not in _OPERATORS:
            simple.append(word)
            continue
        if _ends_the_search(simple):
            yield [] if either else found[:-1]
            return
        if word in (";", "&"):
            yield [] if either else found
            found, either = [], False
        either = either or word == "||"
        simple = []
        found.append(simple)


def _words(plain: str) -> list[str]:
    """The words and operators; a line break is ";"."""
    lexer = shlex.shlex(plain, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    found = list(lexer)
    return [(word.strip("\n") or ";") if set(word) <= set("();<>|&\n") else word for word in found]


def _ends_the_search(simple: list[str]) -> bool:
    """Whether what follows, or this command itself, is not known."""
    strange = any(set(word) <= set("();<>|&") and word not in _REDIRECTIONS for word in simple)
    path = any(word.startswith("PATH=") for word in simple)
    return strange or path or (bool(simple) and simple[0] in (*_COMPOUND, *_REDEFINE, *_REDIRECTIONS))
