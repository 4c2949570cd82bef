"""Longhaul: a long-fat-network emulator for Linux.

Start reading at `model` (what a user wishes), then `netem` (what the kernel stores), `plan` (what has to
change) and `reconcile` (how it is changed without ever losing what was there).
"""

__version__ = "0.1.0"
