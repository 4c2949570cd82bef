"""Where commands run, and which: network namespaces and SSH hosts, their TCP settings, the tools that measure.

May import: everything up to kernel and analysis. Never here: lanes as a whole; the appliance is one room further.
"""
