"""Fixtures for other people's pytest suites: a test runs its own programs over a lane in the lab.

`plugin` is what pytest loads, `measure` runs cells as `longhaul sweep --in-lab` does, `values` are what a test gets.
May import: everything. pytest is used here only. Never here: anything heavy before the first cell, for pytest loads the
plugin in every project of an environment that has Longhaul.
"""

from emulator.pytest_plugin.measure import LonghaulRun
from emulator.pytest_plugin.values import LonghaulCell, LonghaulLane, LonghaulLaw, LonghaulProgram

__all__ = ["LonghaulCell", "LonghaulLane", "LonghaulLaw", "LonghaulProgram", "LonghaulRun"]
