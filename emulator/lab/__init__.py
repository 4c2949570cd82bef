"""The lab: a User-mode Linux kernel with the real TCP stack, bridge and netem, in virtual time.

`build_kernel` and `build_image` make what it boots from, `boot` runs a command in it, `init` is its first process.
May import: errors, units, system, model. Never here: a lane; the same code runs inside the lab as outside.
"""
