"""From axes to measured cells: grid, cell, runner, run folder, comparison of runs, certificate, RFC 6349.

May import: everything up to control. Never here: tables and figures.
"""
