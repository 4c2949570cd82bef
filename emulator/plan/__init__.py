"""From the intent to the kernel's integers, and from the present to the intended state as ordered operations. Pure.

May import: errors, units, system, model, config. Never here: I/O, clocks, randomness, netlink.
"""
