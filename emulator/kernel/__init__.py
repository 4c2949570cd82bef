"""The one door to the operating system: observe what Longhaul owns, apply one operation, read counters.

The rest of the code knows `protocol`; `netlink` is the real kernel, `fake` one in memory with the same refusals.
May import: everything up to plan. pyroute2 is used here only. Never here: a decision.
"""

from emulator.kernel import lazy_pyroute2

lazy_pyroute2.install()
