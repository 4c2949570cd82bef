"""From the wish to the kernel's integers, and from what is there to what is wished as ordered operations. Pure.

May import: errors, units, system, model, config. Never here: I/O, clocks, randomness, netlink.
"""
