"""The command line: one module for each command, thin over `control`, `experiment`, `report` and `record`.

`main` lists the commands and imports each when it is called. May import: everything but `mininet`. click is used here
only. Never here: a decision about lanes.
"""
