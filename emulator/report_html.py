"""report.html: one file with everything in it, that prints well and follows the reader's light or dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from emulator import presets, report
from emulator.cells import CellResult, CellSpec
from emulator.report import Table

if TYPE_CHECKING:
    from emulator.plots import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --rule: #c9c9c9; --bad: #b00020; --soft: #f3f5f7; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #16181b; --rule: #3a3f45; --bad: #ff8a80; --soft: #20242a; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1.5rem; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th:last-child, td:last-child, th:first-child, td:first-child { text-align: left; }
figure { margin: 1.5rem 0; break-inside: avoid; }
figure svg { background: #fff; max-width: 100%; height: auto; border: 1px solid var(--rule); }
figcaption, .facts { font-size: .9em; }
.bad { color: var(--bad); }
pre { background: var(--soft); padding: .7rem; overflow-x: auto; }
@media print {
  body { margin: 0; max-width: none; font-size: 10pt; }
  tr { break-inside: avoid; }
  details { display: none; }
}
"""


def page(
    facts: Mapping[str, Any],
    machine: Mapping[str, Any],
    specs: Sequence[CellSpec],
    found: Mapping[str, CellResult],
    said: Sequence[str],
    figures: Sequence[Figure],
) -> str:
    """The whole report. `facts` is run.json, `machine` machine.json."""
    title = "Longhaul: throughput against RTT"
    published = presets.side_by_side(specs, found)
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="facts">{escape(_origin(facts, machine, found))}</p>',
        _list("What must not be overlooked", said, "bad"),
        _table(report.overview(specs, found)),
        f"<p>{escape(report.LEGEND)}</p>",
        *([_table(published.table), *(f"<p>{escape(text)}</p>" for text in published.words)] if published else []),
        *(_figure(figure) for figure in figures),
        *(_table(table) for table in report.details(specs, found)),
        _list("What would lift a cell", report.advice(found)),
        _list("To know when reading this", report.findings(found)),
        _table(_evidence(found)),
        _machine(machine),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def _origin(facts: Mapping[str, Any], machine: Mapping[str, Any], found: Mapping[str, CellResult]) -> str:
    kernels = sorted({result.kernel for result in found.values()})
    tools = sorted({result.tool for result in found.values()})
    clock = "virtual time" if machine.get("virtual_time") else "real time"
    return (
        f"Made {facts.get('created', 'at an unknown time')} by Longhaul {facts.get('version', '')}, Linux "
        f"{', '.join(kernels)}, {', '.join(tools)}, {clock}; cells in the order of seed {facts.get('order_seed', 0)}, "
        f"each measured {facts.get('most_repeats', 1)} times at most."
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.header)
    rows = "\n".join("<tr>" + "".join(_cell(text) for text in row) + "</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.title)}</caption>"
    return f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>'


def _cell(text: str) -> str:
    bad = ' class="bad"' if text.startswith(report.INVALID_MARK) else ""
    return f"<td{bad}>{escape(text)}</td>"


def _list(title: str, lines: Sequence[str], style: str = "") -> str:
    if not lines:
        return ""
    items = "\n".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<h2>{escape(title)}</h2>\n<ul class="{style}">{items}</ul>'


def _figure(figure: Figure) -> str:
    caption = escape(figure.caption)
    return f"<figure>{figure.svg}<figcaption>{caption}</figcaption></figure>"


def _evidence(found: Mapping[str, CellResult]) -> Table:
    rows = tuple((id, result.kind, result.evidence) for id, result in found.items())
    return Table("Evidence", ("cell", "limited by", "because"), rows)


def _machine(machine: Mapping[str, Any]) -> str:
    lines = [
        f"{group}: {escape(str(value))}"
        for group, values in machine.items()
        for value in (
            [f"{name} = {one}" for name, one in values.items()] if isinstance(values, Mapping) else [str(values)]
        )
    ]
    body = "\n".join(lines)
    return f"<details><summary>The machine it was measured with</summary><pre>{body}</pre></details>" if lines else ""
