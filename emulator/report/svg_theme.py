"""Embeds a figure in a page: unique ids, the page's colours, and a text alternative."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from emulator.report.figures import style

if TYPE_CHECKING:
    from emulator.report.figures.draw import Figure

BY_NIGHT = ("#56a8e0", "#ff8a3d", "#2fc79a", "#e39ac4", "#d9b53a", "#b0b0b0")
"""The colours of the lines on a dark page, in the order of those on white."""
NAMES = {style.INK: "ink", style.PAPER: "paper", style.RULE: "rule", style.BAD: "bad"} | {
    colour: f"line-{number}" for number, colour in enumerate(style.COLOURS)
}
"""The page's CSS variable for each colour that follows its light or dark theme."""


def variables(colours: tuple[str, ...]) -> str:
    """The page's CSS definitions of the lines' colours."""
    return " ".join(f"--line-{number}: {colour};" for number, colour in enumerate(colours))


def embedded(figure: Figure) -> str:
    """The drawing as an element of an HTML page."""
    # HTML allows neither the XML prolog nor the metadata.
    drawing = re.sub(r"<metadata>.*?</metadata>", "", figure.svg[figure.svg.index("<svg") :], flags=re.DOTALL)
    drawing = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{figure.name}-", drawing)
    drawing = re.sub("#[0-9a-f]{6}", lambda found: _themed(found.group()), drawing)
    words = escape(f"{figure.title}: a chart of the values in the tables", quote=True)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{words}" ', 1)


def _themed(colour: str) -> str:
    return f"var(--{NAMES[colour]})" if colour in NAMES else colour
