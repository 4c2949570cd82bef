"""The figures of a run: `style` draws all of them alike, one module a figure, `draw` writes them to files."""
