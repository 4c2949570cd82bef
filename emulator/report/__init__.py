"""Tables, pages and figures of what was measured.

May import: everything up to experiment. matplotlib is used in `figures` only. Never here: measuring.
"""
