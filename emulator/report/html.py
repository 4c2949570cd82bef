"""report.html: one self-contained file that prints well and follows the reader's light or dark theme."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from emulator.experiment import results
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.flows_result import FlowsResult
from emulator.experiment.requests_result import RequestsResult
from emulator.experiment.results import Result
from emulator.model import run_name
from emulator.report import published_results, remarks, summary, svg_theme, tables
from emulator.report.figures.style import BAD, COLOURS, INK, PAPER, RULE
from emulator.report.table_kinds import tables_of
from emulator.report.tables import Table

if TYPE_CHECKING:
    from emulator.report.figures.draw import Figure

BY_DAY = (
    f"--ink: {INK}; --paper: {PAPER}; --rule: {RULE}; --bad: {BAD}; "
    f"--soft: #f3f5f7; --faint: #5a6068; {svg_theme.variables(COLOURS)}"
)
BY_NIGHT = (
    "--ink: #e6e6e6; --paper: #16181b; --rule: #3a3f45; --bad: #ff8a80; --soft: #20242a; --faint: #a7adb5; "
    f"{svg_theme.variables(svg_theme.BY_NIGHT)}"
)
STYLE = f"""
:root {{ color-scheme: light dark; {BY_DAY} }}
@media (prefers-color-scheme: dark) {{ :root {{ {BY_NIGHT} }} }}
@media print {{ :root {{ color-scheme: light; {BY_DAY} }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 76rem; padding: 0 1rem; overflow-wrap: break-word; }}
h1 {{ margin-bottom: 0; line-height: 1.2; }}
h2 {{ margin-top: 2.5rem; padding-bottom: .2rem; border-bottom: 2px solid var(--rule); }}
nav ul {{ display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; list-style: none; }}
a {{ color: var(--line-0); }}
.wide {{ overflow-x: auto; margin: .5rem 0 1.5rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
caption {{ text-align: left; font-weight: 600; padding: .3rem 0; }}
th, td {{ padding: .2rem .55rem; border-bottom: 1px solid var(--rule); text-align: right; vertical-align: top; }}
td, tbody th {{ white-space: nowrap; font-weight: normal; }}
th:first-child, .words {{ text-align: left; }}
thead th {{ vertical-align: bottom; }}
td.words {{ white-space: normal; min-width: 9rem; }}
@media (max-width: 40rem) {{ td.words {{ min-width: 14rem; }} }}
figure {{ margin: 1.5rem 0; break-inside: avoid; }}
figure svg {{ display: block; width: 100%; min-width: 40rem; max-width: 64rem; height: auto; }}
figcaption, .faint {{ font-size: .9em; color: var(--faint); }}
.bad {{ color: var(--bad); }}
@page {{ size: A4; margin: 14mm; }}
@media print {{
  body {{ margin: 0; max-width: none; padding: 0; font-size: 9pt; }}
  h2, h3, caption, thead {{ break-after: avoid; }}
  tr, li {{ break-inside: avoid; }}
  table {{ font-size: 7.5pt; }}
  th, td {{ padding: .1rem .35rem; }}
  td.words {{ min-width: 0; }}
  .wide {{ overflow: visible; }}
  figure svg {{ min-width: 0; max-width: 86%; }}
  nav {{ display: none; }}
}}
"""


def page(
    facts: Mapping[str, Any],
    machine: Mapping[str, Any],
    specs: Sequence[CellSpec],
    found: Mapping[str, Result],
    said: Sequence[str],
    figures: Sequence[Figure],
) -> str:
    """The whole report. `facts` is run.json with the run's name and id, `machine` is machine.json."""
    name = specs[0].topology.name if specs else "no cells"
    if facts.get("name"):
        name = f"{run_name.titled(facts['name'], facts['id'])}, {name}"
    kind, streams = tables_of(specs), results.of_kind(CellResult, found)
    title = f"Longhaul: {kind.TITLE[:1].lower()}{kind.TITLE[1:]}, {name}"
    overview, advice, findings = kind.overview(specs, found), kind.advice(specs, found), remarks.findings(found)
    sections = [
        ("summary", "Summary", _list(summary.sentences(specs, streams)) if streams else ""),
        ("objections", "Problems of this run", _list(said, "bad") if said else ""),
        ("overview", "Overview", _table(overview) + _words([kind.LEGEND])),
        ("published", "Published, measured, theory", _published(published_results.side_by_side(specs, streams))),
        ("figures", "Figures", "".join(map(_figure, figures))),
        ("cells", "Every cell", "".join(map(_table, kind.details(specs, found)))),
        ("reasons", "What limited each cell, and what would help", _table(_evidence(found))),
        ("advice", kind.ADVICE.removesuffix(":").capitalize(), _list(advice) if advice and not streams else ""),
        ("findings", "Notes on the measurements", _list(findings) if findings else ""),
        ("captures", "Captured frames", _captures(found)),
        ("certificate", "Certificate", _table(summary.certificate(specs, streams)) if streams else ""),
        ("machine", "The machine that ran the measurements", _machine(machine)),
    ]
    written = [section for section in sections if section[2]]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    top = f'<h1>{escape(kind.TITLE)}</h1><p>{escape(name)}</p>\n<p class="faint">{_origin(facts, machine, found)}</p>'
    body = f"<header>{top}\n{_contents(written)}</header>\n<main>{''.join(_section(*one) for one in written)}</main>"
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>{body}</body></html>\n'


def _section(id: str, title: str, content: str) -> str:
    return f'\n<section aria-labelledby="{id}"><h2 id="{id}">{escape(title)}</h2>\n{content}</section>\n'


def _contents(sections: Iterable[tuple[str, str, str]]) -> str:
    items = "".join(f'<li><a href="#{id}">{escape(title)}</a></li>' for id, title, _ in sections)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _origin(facts: Mapping[str, Any], machine: Mapping[str, Any], found: Mapping[str, Result]) -> str:
    kernels = sorted({result.machine.kernel for result in found.values()})
    tools = sorted({_tool(result) for result in found.values()})
    counted = "virtual time that counts computing" if machine.get("counted_time") else "real time"
    clock = "virtual time" if machine.get("virtual_time") else counted
    most = facts.get("most_repeats", 1)
    order = "longest first, equal ones in random order" if facts.get("in_lab") else "in random order"
    return escape(
        f"Created {facts.get('created', 'at an unknown time')} by Longhaul {facts.get('version', '')}, Linux "
        f"{', '.join(kernels)}, {', '.join(tools)}, {clock}. The cells ran {order} (seed "
        f"{facts.get('order_seed', 0)}). Each cell was measured {'once' if most == 1 else f'at most {most} times'}."
    )


def _tool(result: Result) -> str:
    if isinstance(result, FlowsResult):
        return f"flows by {result.flows.tool}"
    if isinstance(result, RequestsResult):
        return f"requests by {result.requests.tool}"
    return result.transfer.tool if isinstance(result, CellResult) else result.spec.workload.title(result.spec.load)


def _words(lines: Sequence[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>\n" for text in lines)


def _captures(found: Mapping[str, Result]) -> str:
    """A link to each file of captured frames, beside which this page stands; empty when there are none."""
    files = [file for result in found.values() for file in result.captures]
    rows = "\n".join(
        f'<tr><th scope="row"><a href="{quote(file.name)}">{escape(file.name)}</a></th><td>{file.frames}</td>'
        f'<td>{file.dropped}</td><td class="words"><code>{file.sha256}</code></td></tr>'
        for file in files
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("file", "frames", "lost", "SHA-256"))
    table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>"
    return f'<div class="wide" role="region" tabindex="0" aria-label="captures">{table}</div>' if files else ""


def _list(lines: Sequence[str], style: str = "") -> str:
    items = "\n".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="{style}">{items}</ul>' if style else f"<ul>{items}</ul>"


def _table(table: Table) -> str:
    """A table that scrolls on its own where it is wider than the page, also with the keyboard."""
    styles = [' class="words"' if name in table.left else "" for name in table.header]
    head = "".join(
        f'<th scope="col"{style}>{_unbroken(text)}</th>' for text, style in zip(table.header, styles, strict=True)
    )
    rows = "\n".join(_row(row, styles) for row in table.rows)
    title = escape(table.title, quote=True)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{title}"><table><caption>{title}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n{_words(table.below)}"
    )


def _unbroken(text: str) -> str:
    """Escape the text, with a no-break space between a number and its unit."""
    return re.sub(r"(\d) (?=m?s\b)", "\\1\N{NO-BREAK SPACE}", escape(text))


def _row(row: Sequence[str], styles: Sequence[str]) -> str:
    first, *others = row
    cells = "".join(_cell(text, style) for text, style in zip(others, styles[1:], strict=True))
    return f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>'


def _cell(text: str, style: str) -> str:
    bad = ' class="bad"' if text.startswith(tables.INVALID_MARK) else style
    return f"<td{bad}>{escape(text)}</td>"


def _figure(figure: Figure) -> str:
    return (
        f'<figure><h3>{escape(figure.title)}</h3><div class="wide" role="region" tabindex="0" '
        f'aria-label="{escape(figure.title, quote=True)}">{svg_theme.embedded(figure)}</div>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>\n"
    )


def _published(published: published_results.Published | None) -> str:
    return _table(published.table) + _words(published.words) if published else ""


def _evidence(found: Mapping[str, Result]) -> Table:
    header = ("cell", "limited by", "because", "what would help")
    rows = tuple(
        (id, result.judgement.kind, result.judgement.evidence, result.judgement.advice or "-")
        for id, result in found.items()
    )
    return Table("Evidence and advice", header, rows, header)


def _machine(machine: Mapping[str, Any]) -> str:
    """Each group of machine.json as a table; switchable offloads are grouped by their state."""
    groups = {name: dict(values) for name, values in machine.items() if isinstance(values, Mapping)}
    offloads = groups.pop("offloads", {})
    groups["offloads"] = {way: ", ".join(name for name, is_ in offloads.items() if is_ == way) for way in ("on", "off")}
    groups["others"] = {name: value for name, value in machine.items() if not isinstance(value, Mapping)}
    known = {name: tuple((key, str(value)) for key, value in group.items() if value) for name, group in groups.items()}
    titles = {"sysctls": "sysctls, under the profile of the first measured cell"}
    return "".join(
        _table(Table(titles.get(name, name), ("name", "value"), rows, ("name", "value")))
        for name, rows in known.items()
        if rows
    )
