"""Longhaul: a long-fat-network emulator for Linux.

Start reading at `model` (the user's intent), then `plan` (the kernel's integers and the operations) and
`control.reconcile` (how operations are applied and rolled back).
"""

__version__ = "0.2.0"
