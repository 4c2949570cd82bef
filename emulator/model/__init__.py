"""The user's intent: topology, lanes, impairments, flows, schedules, places, the axes of a sweep. Pure.

May import: errors, units, system (its values only). Never here: files, clocks, randomness, the kernel's integers.
"""
