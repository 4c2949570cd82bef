"""The use cases (up, down, set, confirm, undo, status), the watchdog, the schedule player and the remote client.

May import: everything up to hosts. Never here: measuring a cell, printing, HTTP serving.
"""
