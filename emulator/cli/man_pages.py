"""Man pages of all commands, made from click's own help and the page of commands.

The libraries that make man pages from click commands find neither commands that are imported when they are called nor
the examples below a command's help: this module writes the pages itself. The format is man(7) for mandoc and groff.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from markdown_it import MarkdownIt
from markdown_it.token import Token

from emulator import __version__
from emulator.cli.doc_pages import pages
from emulator.cli.main import cli
from emulator.system import named_file


def write(folder: Path) -> list[Path]:
    """Write one man page for each command into `folder`, which is created if necessary; return the files."""
    named_file.folder(folder)
    written = []
    for context in _contexts(click.Context(cli, info_name="longhaul", **cli.context_settings)):
        path = folder / f"{context.command_path.replace(' ', '-')}.1"
        named_file.write(path, man_page(context))
        written.append(path)
    return written


def _contexts(context: click.Context) -> Iterator[click.Context]:
    """A command and all below it."""
    yield context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from _contexts(click.Context(below, info_name=name, parent=context))


def man_page(context: click.Context) -> str:
    """One page in man(7)."""
    command, name = context.command, context.command_path.replace(" ", "-")
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    short, _, long = (command.help or "").partition("\n\n")
    parts = [
        f'.TH "{name.upper()}" "1" "{date}" "Longhaul {__version__}" "Longhaul"',
        *_heading("NAME", f"{_escape(name)} \\- {_escape(_first_sentence(short).removeprefix('Longhaul: '))}"),
        *_heading("SYNOPSIS", f"\\fB{_escape(context.command_path)}\\fP {_escape(_usage(context))}"),
        *_heading("DESCRIPTION", _help(short), *([".PP", _help(long)] if long else []), *_prose(context)),
        *_options(context),
        *_subcommands(context),
        *_examples(command),
        *_of_all_commands(context),
        *_see_also(context),
    ]
    return "\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def _heading(title: str, *lines: str) -> list[str]:
    return [f".SH {title}", *lines]


def _usage(context: click.Context) -> str:
    return " ".join(context.command.collect_usage_pieces(context))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _first_sentence(text: str) -> str:
    """The first sentence of a command's help, without its full stop."""
    return re.split(r"(?<=\.)\s", _one_line(text.partition("\n\n")[0]), maxsplit=1)[0].rstrip(".")


def _help(text: str) -> str:
    """A command's help: paragraphs; those after a line with a backspace keep their lines, and are examples."""
    paragraphs = [part for part in text.split("\n\n") if not part.lstrip().startswith("\b")]
    return "\n.PP\n".join(_escape(_one_line(part)) for part in paragraphs)


def _prose(context: click.Context) -> list[str]:
    """The section of the page of commands about a command of the first level."""
    if context.parent is None or context.parent.parent is not None:
        return []
    return roff(pages()["commands"].without_options().section(str(context.info_name)))


def _options(context: click.Context) -> list[str]:
    given = [one for one in context.command.get_params(context) if isinstance(one, click.Option)]
    records = [one.get_help_record(context) for one in given]
    lines = [line for record in records if record for line in _term(f"\\fB{_escape(record[0])}\\fP", record[1])]
    return _heading("OPTIONS", *lines)


def _term(term: str, text: str) -> list[str]:
    return [".TP", term, _escape(text)]


def _subcommands(context: click.Context) -> list[str]:
    command = context.command
    if not isinstance(command, click.Group):
        return []
    lines = []
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below
        path = f"{context.command_path} {name}".replace(" ", "-")
        lines += _term(f"\\fB{_escape(path)}\\fP(1)", f"{_first_sentence(below.help or '')}.")
    return _heading("COMMANDS", *lines)


def _examples(command: click.Command) -> list[str]:
    """The examples below a command's help, or within it."""
    text = command.epilog or "\n".join(re.findall(r"\x08\n(.*)", command.help or "", re.DOTALL))
    lines = [line.strip() for line in text.replace("\b", "").splitlines()]
    shown = [line for line in lines if line and not re.fullmatch(r"Examples?:", line)]
    return _heading("EXAMPLES", *_verbatim(shown)[1:]) if shown else []


def _of_all_commands(context: click.Context) -> list[str]:
    """On the first page: the exit codes and the environment, as the page of commands has them."""
    if context.parent:
        return []
    source = pages()["commands"].source
    tables = (("EXIT STATUS", "exit code"), ("ENVIRONMENT", "variable"))
    return [
        line
        for title, head in tables
        for table in re.findall(rf"^\| {head} \|.*?(?=\n\n)", source, re.MULTILINE | re.DOTALL)
        for line in _heading(title, *roff(table))
    ]


def _see_also(context: click.Context) -> list[str]:
    above = f"\\fB{_escape(context.parent.command_path.replace(' ', '-'))}\\fP(1)" if context.parent else ""
    own = "\\fBlonghaul docs\\fP lists the pages of the documentation."
    if context.parent:
        own = f"\\fBlonghaul\\fP(1) has the exit codes and the variables of the environment. {own}"
    return _heading("SEE ALSO", *([above, ".PP"] if above else []), own)


def _verbatim(lines: Sequence[str]) -> list[str]:
    return [".PP", ".nf", *(_escape(line) or "\\&" for line in lines), ".fi"]


def _escape(text: str) -> str:
    """Text as roff shows it: no character is a command."""
    shown = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in shown.split("\n"))


def roff(markdown: str) -> list[str]:
    """Markdown as man(7): paragraphs, lists, blocks of code; of a table the first column is a term."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    lines: list[str] = []
    cells: list[str] = []
    in_head = False
    for number, token in enumerate(tokens):
        kind, before = token.type, tokens[number - 1].type
        if kind == "fence":
            lines += _verbatim(token.content.rstrip("\n").split("\n"))
        elif kind in ("thead_open", "thead_close"):
            in_head = kind == "thead_open"
        elif kind == "tr_open":
            cells = []
        elif kind == "tr_close" and not in_head:
            lines += [".TP", cells[0], "; ".join(cell for cell in cells[1:] if cell)]
        elif kind == "inline" and before in ("td_open", "th_open"):
            cells.append(_inline(token))
        elif kind == "inline":
            lines += [_opening(tokens, number), _inline(token)]
    return lines


def _opening(tokens: Sequence[Token], number: int) -> str:
    """The request that begins this piece of text: a heading, an item of a list, or a paragraph."""
    if tokens[number - 1].type == "heading_open":
        return ".SS"
    return ".IP \\(bu 2" if tokens[number - 2].type == "list_item_open" else ".PP"


def _inline(token: Token) -> str:
    marks = {"strong_open": "\\fB", "strong_close": "\\fP", "em_open": "\\fI", "em_close": "\\fP", "softbreak": "\n"}
    parts = []
    for part in token.children or ():
        if part.type == "code_inline":
            parts.append(f"\\fB{_escape(part.content)}\\fP")
        else:
            parts.append(marks.get(part.type, _escape(part.content)))
    text = "".join(parts)
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.split("\n"))
