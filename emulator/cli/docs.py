"""`longhaul docs`: the documentation in the terminal, and as man pages."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from emulator.cli import doc_pages, man_pages
from emulator.cli.output import emit_json, emit_table, json_option

WIDEST = 100


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    return [topic for topic in doc_pages.topics() if topic.startswith(incomplete)]


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul docs\n"
    "  longhaul docs tutorial\n"
    "  longhaul docs set\n"
    "  longhaul docs --man /usr/local/share/man/man1"
)
@click.argument("topic", required=False, shell_complete=_complete)
@click.option("--man", metavar="DIRECTORY", type=click.Path(file_okay=False, path_type=Path),
              help="Write a man page for every command into this directory.")  # fmt: skip
@json_option
def docs(topic: str | None, man: Path | None, as_json: bool) -> None:
    """Show a page of the documentation: TOPIC, or the name of a command.

    Without TOPIC, list all topics.
    """
    if man:
        written = man_pages.write(man)
        emit_json([str(path) for path in written]) if as_json else click.echo(f"{len(written)} man pages in {man}")
    elif topic is None:
        _list(as_json)
    elif as_json:
        shown = doc_pages.page(topic)
        emit_json({"topic": topic, "title": shown.title, "text": shown.text})
    else:
        _show(doc_pages.page(topic).text)


def _list(as_json: bool) -> None:
    known = doc_pages.pages().values()
    if as_json:
        emit_json([{"topic": one.topic, "title": one.title, "summary": one.summary} for one in known])
        return
    emit_table(("topic", "about"), [(one.topic, one.summary) for one in known], left=("topic", "about"))
    click.echo("\nlonghaul docs TOPIC shows a page; longhaul docs COMMAND shows what it says about a command.")


def _show(text: str) -> None:
    """Print Markdown as it is, or, on a terminal, formatted and in a pager."""
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    canvas = io.StringIO()
    width = min(Console().width, WIDEST)
    Console(file=canvas, force_terminal=True, width=width).print(Markdown(text, hyperlinks=False))
    click.echo_via_pager(canvas.getvalue(), color=True)
