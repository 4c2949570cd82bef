"""A figure put into a page: ids of its own, the page's colours, and words for those who see none."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from emulator.report.figures import style

if TYPE_CHECKING:
    from emulator.report.figures.draw import Figure

BY_NIGHT = ("#56a8e0", "#ff8a3d", "#2fc79a", "#e39ac4", "#d9b53a", "#b0b0b0")
"""The colours of the lines on dark paper, in the order of those on white."""
NAMES = {style.INK: "ink", style.PAPER: "paper", style.RULE: "rule", style.BAD: "bad"} | {
    colour: f"line-{number}" for number, colour in enumerate(style.COLOURS)
}
"""What the page calls the colours that follow its light or dark."""


def variables(colours: tuple[str, ...]) -> str:
    """The page's definitions of the lines' colours."""
    return " ".join(f"--line-{number}: {colour};" for number, colour in enumerate(colours))


def embedded(figure: Figure) -> str:
    """The drawing as an element of a page."""
    # The XML prolog and the metadata have no place inside HTML.
    drawing = re.sub(r"<metadata>.*?</metadata>", "", figure.svg[figure.svg.index("<svg") :], flags=re.DOTALL)
    drawing = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{figure.name}-", drawing)
    drawing = re.sub("#[0-9a-f]{6}", lambda found: _themed(found.group()), drawing)
    words = escape(f"{figure.title}: a chart of the figures that the tables hold", quote=True)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{words}" ', 1)


def _themed(colour: str) -> str:
    return f"var(--{NAMES[colour]})" if colour in NAMES else colour
