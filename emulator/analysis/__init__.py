"""Pure numbers: throughput models, verdicts, validity checks, advice, statistics, delay histograms.

May import: errors, units, system, model. Never here: I/O, clocks, randomness, a tool's output format.
"""
