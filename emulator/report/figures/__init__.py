"""The figures of a run. `style` sets what they share, each other module draws one figure, `draw` writes the files."""
