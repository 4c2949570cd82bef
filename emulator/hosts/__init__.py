"""Hosts: network namespaces and SSH hosts, their TCP settings, and the tools that measure on them.

May import: everything up to kernel and analysis. Never here: lanes as a whole, which belong to `control`.
"""
