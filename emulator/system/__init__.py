"""The machine beside the network: clocks, timers, files that survive a crash, logs, systemd.

Nothing here knows a lane. May import: errors, units. Never here: netlink, processes, hosts, anything of a topology.
"""
